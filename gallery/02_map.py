"""From 28 stations to a map

The upper row shares one colour scale: what the stations read, the mean of a hundred members, and the truth that the
model never saw. Below are the spread, the error that was made, and the chance of a high value. An honest map has large
errors only where its spread is large.
"""

from solidfield.plot.fields import scene
from world import NOW, UNITS, readings, run, save, truth

# %% A hundred maps that could all be true, given what was read at this hour, before and after
maps = run().reconstruct(readings(), at=NOW)
members = maps["PM2.5"].isel(init_time=0, lead_time=0)

# %% Beside the truth, which only this picture knows
given = readings().sel(time=NOW)
known = truth().sel(time=NOW)
figure = scene(
    members.values,
    given.values,
    known.values,
    run().grid,
    75.0,
    f"PM2.5 [{UNITS}]",
    f"PM2.5, {NOW}",
    "truth, never seen",
)

save(figure, __file__)
