"""What may be known, and what is asked

Every example has two masks: the cells that are read at the source (blue) and those that are asked for at the target
(orange). The paper's studies draw them at random or in blocks, the same for all examples or anew for each, disjoint or
overlapping (black). Nothing outside the two ever reaches a model.
"""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import solidfield as sf
from world import save

# %% pattern, amount, regime, overlap
CASES = {
    "random, 10 %": ("random", 0.1, "instance", 0.0),
    "random, 40 %": ("random", 0.4, "instance", 0.0),
    "random, 20 %, overlapping": ("random", 0.2, "instance", 0.5),
    "4 blocks": ("block", 4, "instance", 0.0),
    "8 blocks": ("block", 8, "instance", 0.0),
    "8 blocks, overlapping": ("block", 8, "instance", 0.5),
}
colours = ListedColormap(["#EEEEEE", "#0072B2", "#E69F00", "#000000"])
figure = Figure(figsize=(8, 5.6), layout="constrained")
for ax, (title, (pattern, amount, regime, overlap)) in zip(figure.subplots(2, 3).flat, CASES.items(), strict=True):
    source, target = sf.scenario_masks(pattern, amount, regime, (64, 64), index=0, seed=1, overlap=overlap)
    ax.imshow(
        source + 2 * target.astype(np.int8), origin="lower", cmap=colours, vmin=-0.5, vmax=3.5, interpolation="nearest"
    )
    ax.set(title=title, xticks=[], yticks=[])

save(figure, __file__)
