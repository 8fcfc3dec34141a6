"""Which sensor is wrong?

Each station is hidden and reconstructed from the others. One of them reads twice what it should: nothing in its own
record looks odd, but the others do not imply it.
"""

import solidfield as sf
from solidfield.plot.readings import quality_figure
from world import busiest, readings, save

# %% Spoil a station
lat, lon = busiest()
spoiled = (readings()["lat"] == lat) & (readings()["lon"] == lon)
frames = readings().where(~spoiled, 2 * readings())

# %% Ask which are out of line
found = sf.quality(frames, transform="log", most=200)
print(found.suspects[["y", "x", "verdict"]])
figure = quality_figure(found, most=3)

save(figure, __file__)
