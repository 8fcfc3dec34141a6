"""The chance of a bad hour

The share of members above a limit, one, three and six hours ahead. Lines show where the truth was above it in the end.
A chance of 30 % should come true three times in ten; that is what calibration promises.
"""

import cmocean
import numpy as np
from matplotlib.figure import Figure

import solidfield as sf
from solidfield.plot.ground import scale_bar
from world import NOW, draw_map, draw_stations, readings, run, save, truth

# %% From the members: how many of a hundred are above
LIMIT = 60.0
maps = run().forecast(readings(), at=NOW, steps=6)
chance = sf.exceedance(maps, LIMIT).isel(threshold=0, init_time=0)

# %% Three hours of them
figure = Figure(figsize=(9, 3.6), layout="constrained")
axes = figure.subplots(1, 3, sharex=True, sharey=True)
for ax, hours in zip(axes, (1, 3, 6), strict=True):
    image = draw_map(ax, chance.isel(lead_time=hours - 1), f"{hours} h ahead", cmocean.cm.dense, 0, 1)
    later = truth().sel(time=np.datetime64(NOW) + np.timedelta64(hours, "h"))
    ax.contour(later["lon"], later["lat"], later, [LIMIT], colors="#D55E00", linewidths=1.2)
    draw_stations(ax, NOW)
    ax.label_outer()
scale_bar(axes[0], run().grid)
figure.colorbar(image, ax=list(axes), label=f"chance of more than {LIMIT:g}")

save(figure, __file__)
