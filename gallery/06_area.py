"""The mean of a district has a law of its own

Cells err together, so the mean of 36 cells is far less certain than 36 independent errors would make it. The
members know: each has its own mean of the district, and their histogram is the law. The maps of mean and spread cannot
tell; the dashed curve is what they would suggest.
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

import solidfield as sf
from world import NOW, UNITS, readings, run, save, truth

# %% A square of 6 x 6 cells, asked of the members
SOUTH, WEST, SIDE = 22.475, 88.295, 0.06
corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
ring = [[WEST + SIDE * x, SOUTH + SIDE * y] for x, y in corners]
maps = run().reconstruct(readings(), at=NOW, members=1000)
law = sf.area_mean(maps, {"type": "Polygon", "coordinates": [ring]})["PM2.5"].values.ravel()

# %% What independent cells would give
here = {"lat": slice(SOUTH, SOUTH + SIDE), "lon": slice(WEST, WEST + SIDE)}
cells = maps.isel(init_time=0, lead_time=0).sel(here)
middle = float(cells["PM2.5_mean"].mean())
apart = float(np.sqrt((cells["PM2.5_std"] ** 2).sum())) / cells["PM2.5_std"].size
actual = float(truth().sel(time=NOW).sel(here).mean())

figure = Figure(figsize=(6.5, 3.6), layout="constrained")
ax = figure.subplots()
ax.hist(law, bins=40, density=True, color="#0072B2", alpha=0.6, label="mean of the district in 1,000 members")
x = np.linspace(law.min(), law.max(), 400)
ax.plot(x, norm.pdf(x, middle, apart), "--", color="#D55E00", label="if cells erred independently")
ax.axvline(actual, color="black", label="truth")
ax.set(xlabel=f"mean of PM2.5 over 36 cells [{UNITS}]", ylabel="density")
ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)

save(figure, __file__)
