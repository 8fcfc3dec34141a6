"""How to read a rank histogram

Where does the truth fall among the sorted members? If it could be one more of them, every rank is equally likely. A
valley: it falls outside too often, the ensemble is too narrow. A hill: too wide. A slope: biased.
"""

import numpy as np
from matplotlib.figure import Figure

import solidfield as sf
from world import save

# %% Four ensembles of 19 members for the same truth
draws = np.random.default_rng(0)
actual, members = draws.normal(size=5000), draws.normal(size=(19, 5000))
CASES = {"honest": members, "too narrow": 0.6 * members, "too wide": 1.7 * members, "biased": members - 0.5}

figure = Figure(figsize=(9, 2.6), layout="constrained")
axes = figure.subplots(1, 4, sharey=True)
for ax, (title, ensemble) in zip(axes, CASES.items(), strict=True):
    counts = np.asarray(sf.rank_histogram(ensemble, actual))
    ax.bar(np.arange(len(counts)), counts / counts.sum(), color="#0072B2")
    ax.axhline(1 / len(counts), color="black", linestyle="--", linewidth=0.8)
    held = float(sf.coverage(ensemble, actual, 0.9))
    ax.set(title=f"{title}: 90 % hold {100 * held:.0f} %", xlabel="rank of the truth")
    ax.title.set_fontsize(9)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share of cases")

save(figure, __file__)
