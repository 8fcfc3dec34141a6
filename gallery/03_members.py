"""A mean is too smooth, a member is not

The mean of the members is the best guess of every single cell, and no map that could be true: it lacks the small
structure that nobody can know. A member has it, somewhere. Whatever depends on several cells at once (the largest
value, the area above a limit) must be computed for every member.
"""

import cmocean
from matplotlib.figure import Figure

from world import NOW, UNITS, draw_map, draw_stations, readings, run, save, truth

# %% Mean, truth, and four of a hundred members
maps = run().reconstruct(readings(), at=NOW).isel(init_time=0, lead_time=0)
panels = {"mean of 100 members": maps["PM2.5_mean"], "truth, never seen": truth().sel(time=NOW)}
panels |= {f"member {k + 1}": maps["PM2.5"][k] for k in range(4)}

figure = Figure(figsize=(9, 6), layout="constrained")
axes = figure.subplots(2, 3, sharex=True, sharey=True)
for ax, (title, values) in zip(axes.T.flat, panels.items(), strict=True):
    image = draw_map(ax, values, title, cmocean.cm.thermal, 15, 120)
    draw_stations(ax, NOW)
    ax.label_outer()
figure.colorbar(image, ax=list(axes.flat), label=f"PM2.5 [{UNITS}]", extend="both")

save(figure, __file__)
