"""Farther from the stations, less is known

Over many hours and all cells: the error of the mean and the spread that was promised, by distance to the nearest
station that was read. The two agree where the map can be trusted. The truth is known here everywhere; of real data,
only stations that are held out can show this.
"""

import numpy as np
from matplotlib.figure import Figure

from world import UNITS, readings, run, save, truth

# %% Maps of every third hour of two days that training never saw
times = readings().sel(time=slice("2024-01-25", "2024-01-25T23:00"))["time"].values[::3]
times = np.concatenate([times, times - np.timedelta64(10, "D")])
maps = run().reconstruct(readings(), at=times, members=40, keep_members=False).isel(lead_time=0)
error = (maps["PM2.5_mean"].values - truth().sel(time=maps["init_time"].values).values) ** 2
spread, away = maps["PM2.5_std"].values ** 2, maps["distance_to_sensor"].values / 0.01

# %% Root mean squares by distance
edges = np.array([-1, 0.01, 1.5, 2.5, 3.5, 4.5, 6, 20])
bins = np.digitize(away, edges) - 1
kept = [b for b in range(len(edges) - 1) if (bins == b).sum() > 30]
at = [away[bins == b].mean() for b in kept]

figure = Figure(figsize=(6.5, 3.6), layout="constrained")
ax = figure.subplots()
for values, words, look in ((error, "error that was made", "o-"), (spread, "spread that was promised", "s--")):
    ax.plot(at, [np.sqrt(values[bins == b].mean()) for b in kept], look, label=words)
ax.set(xlabel="distance to the nearest station [cells]", ylabel=f"PM2.5 [{UNITS}]", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside lower center", ncols=2, frameon=False)

save(figure, __file__)
