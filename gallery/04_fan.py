"""Six hours ahead at a place

The law of every hour to come, at a station and at a place without one. Bands are 50 % and 90 % intervals. The black
line is the truth: known before the start at the station alone.
"""

import numpy as np
from matplotlib.figure import Figure

import solidfield as sf
from world import NOW, UNITS, busiest, place_of_most, readings, run, save, truth

# %% A forecast from all readings up to now
maps = run().forecast(readings(), at=NOW, steps=6)
now, hour = np.datetime64(NOW), np.timedelta64(1, "h")
places = {
    "at a station": busiest(),
    "farthest from all stations": place_of_most(maps["distance_to_sensor"][0]),
}

# %% One panel a place
figure = Figure(figsize=(9, 3.4), layout="constrained")
for ax, (words, (lat, lon)) in zip(figure.subplots(1, 2, sharey=True), places.items(), strict=True):
    law = sf.at(maps, lat, lon).isel(init_time=0, point=0)
    hours = law["lead_time"] / hour
    ax.fill_between(hours, law["PM2.5_q05"], law["PM2.5_q95"], color="#0072B2", alpha=0.2, label="90 % interval")
    ax.fill_between(hours, law["PM2.5_q25"], law["PM2.5_q75"], color="#0072B2", alpha=0.35, label="50 % interval")
    ax.plot(hours, law["PM2.5_q50"], color="#0072B2", label="median")
    about = truth().sel(lat=lat, lon=lon, method="nearest").sel(time=slice(now - 12 * hour, now + 6 * hour))
    read = readings().sel(lat=lat, lon=lon, method="nearest").reindex_like(about)
    since = (about["time"].values - now) / hour
    ax.plot(since, about, color="black", linewidth=0.8, label="truth")
    ax.plot(since[since <= 0], read[since <= 0], "o", color="#D55E00", markersize=4, label="read")
    ax.axvline(0, color="grey", linewidth=0.8, linestyle="--")
    ax.set(title=f"{words} ({lat:.2f}° N, {lon:.2f}° E)", xlabel="hours from now", xticks=range(-12, 7, 3))
    ax.spines[["top", "right"]].set_visible(False)
figure.axes[0].set_ylabel(f"PM2.5 [{UNITS}]")
handles, labels = figure.axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)

save(figure, __file__)
