"""CRPS rewards honesty

Forecasts of a standard normal truth, all with the same mean error but with different spread. The CRPS of the ensemble
is least where the spread is the error that is made: promising too much costs, and so does promising too little.
"""

import numpy as np
from matplotlib.figure import Figure

import solidfield as sf
from world import save

# %% Truth scatters by 1 around the mean of the ensemble; its members by `spread`
draws = np.random.default_rng(0)
actual = draws.normal(size=4000)
members = draws.normal(size=(60, 4000))
spreads = np.linspace(0.05, 3, 30)
score = [float(sf.crps(spread * members, actual)) for spread in spreads]

figure = Figure(figsize=(6.5, 3.6), layout="constrained")
ax = figure.subplots()
ax.plot(spreads, score, color="#0072B2")
ax.axvline(1, color="grey", linestyle="--", linewidth=0.8)
ax.annotate("honest", (1, max(score)), xytext=(5, -8), textcoords="offset points")
ax.annotate("too sure", (0.25, min(score) * 0.97), ha="center")
ax.annotate("too unsure", (2.3, min(score) * 0.97), ha="center")
ax.set(xlabel="spread of the members, over the error of their mean", ylabel="CRPS", ylim=(min(score) * 0.93, None))
ax.spines[["top", "right"]].set_visible(False)

save(figure, __file__)
