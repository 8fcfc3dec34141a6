"""Fill a gap, with an honest interval

A station fails for a day. Its record is filled from what it read before and after, and from the other stations. With
`past_only` the same gap is filled as it could have been done hour by hour at the time: the interval is wider.
"""

import numpy as np
from matplotlib.figure import Figure

from world import UNITS, busiest, readings, run, save, truth

# %% Hide 20 hours of the station that was read most
lat, lon = busiest()
start, end = np.datetime64("2024-01-20T02:00"), np.datetime64("2024-01-20T21:00")
here = (readings()["lat"] == lat) & (readings()["lon"] == lon)
hidden = here & (readings()["time"] >= start) & (readings()["time"] <= end)
days = slice("2024-01-18", "2024-01-22T12:00")
record = readings().where(~hidden).sel(time=days)

# %% Fill it, looking at both sides or back alone
figure = Figure(figsize=(9, 4.6), layout="constrained")
WORDS = {False: "with what was read before and after", True: "as it could be filled at the time"}
for ax, (past_only, words) in zip(figure.subplots(2, 1, sharex=True, sharey=True), WORDS.items(), strict=True):
    filled = run().fill(record, past_only=past_only)
    mine = filled[np.isclose(filled["lat"], lat) & np.isclose(filled["lon"], lon)].sort_values("time")
    gap = mine.where(mine["filled"])
    ax.fill_between(
        mine["time"], gap["low"], gap["high"], color="#0072B2", alpha=0.3, linewidth=0, label="90 % interval"
    )
    ax.plot(mine["time"], gap["value"], ".-", color="#0072B2", markersize=3, label="filled: median")
    ax.plot(mine["time"], mine["value"].where(~mine["filled"]), ".", color="#D55E00", markersize=4, label="read")
    ax.plot(record["time"], truth().sel(time=days, lat=lat, lon=lon), color="black", linewidth=0.7, label="truth")
    ax.set_title(words, fontsize=10)
    ax.set_ylabel(f"PM2.5 [{UNITS}]")
    ax.spines[["top", "right"]].set_visible(False)
handles, labels = figure.axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)

save(figure, __file__)
