"""A world whose answer is known

In the Gaussian world the law of the whole field given any readings has a closed form. It is what the models of this
library are tested against: this is the best that anyone can do with these sensors, and how uncertain it must remain.
"""

import cmocean
import numpy as np
from matplotlib.figure import Figure

import solidfield as sf
from world import save

# %% A field, 5 % of it read, and the exact law of the rest
world = sf.gaussian_world(seed=1)
field = world.trajectories([0])[0, :3, 0]  # three frames of (H, W)
draws = np.random.default_rng(0)
given = np.where(draws.random(field[0].shape) < 0.05, field[0], np.nan)
now, later = world.posterior(given), world.posterior(given, lead=2)

# %% Now and two frames later
rows = (("now", field[0], now), ("two frames later", field[2], later))
figure = Figure(figsize=(9, 5.8), layout="constrained")
axes = figure.subplots(2, 3, sharex=True, sharey=True)
for (words, actual, law), line in zip(rows, axes, strict=True):
    for ax, values, title in zip(
        line, (actual, law.mean, law.std), ("truth", "exact mean", "exact spread"), strict=True
    ):
        narrow = title == "exact spread"
        colours, low = (cmocean.cm.amp, 0) if narrow else (cmocean.cm.balance, -3)
        image = ax.imshow(values, origin="lower", cmap=colours, vmin=low, vmax=1 if narrow else 3)
        ax.set_title(f"{title}, {words}", fontsize=10)
        ax.set(xticks=[], yticks=[])
        y, x = np.nonzero(np.isfinite(given))
        ax.plot(x, y, "o", color="black", markersize=2)
        if title != "truth":
            figure.colorbar(image, ax=ax, shrink=0.85)

save(figure, __file__)
