"""The paper's tables as data, by their number in its text, and how its raw units are made comparable with ours.

Its CRPS is in raw units of vorticity and no standard deviation is given. The two collapsed games tell it: a point
forecast of the mean has CRPS E|u - mean| = sqrt(2 / pi) std for a Gaussian law, and theirs is 2.64 with a tenth of the
data, so std = 3.3; our simulation of its world has 3.0 to 3.5. Ratios between models do not need it.
"""

from __future__ import annotations

STD = 3.3

# Table 5 (appendix): CRPS at 4, 10 and 40 % of the cells observed; all trajectories, then a tenth of them.
SPARSITY: dict[str, tuple[float, float, float]] = {
    "solid": (1.2141, 0.3840, 0.0968),
    "unet": (1.6256, 0.9981, 0.4673),
    "ffno": (1.6863, 1.0993, 0.4545),
    "oformer": (1.6873, 1.0358, 0.5645),
    "omnifield": (1.6982, 1.1019, 0.4765),
    "scent": (1.6638, 0.8490, 0.5568),
    "stylegan3": (2.6558, 2.3733, 2.1760),
    "inr-gan": (2.5673, 2.4317, 2.0803),
    "infty-diff": (1.4419, 0.7276, 0.2106),
    "ddo": (1.1016, 0.9924, 0.8108),
}
SPARSITY_FEW: dict[str, tuple[float, float, float]] = {
    "solid": (1.2251, 0.4826, 0.1005),
    "unet": (1.8204, 1.2387, 0.6722),
    "ffno": (1.8689, 1.3265, 0.7042),
    "oformer": (1.9677, 1.2387, 0.9052),
    "omnifield": (2.1117, 1.6541, 1.0651),
    "scent": (1.9158, 1.3971, 1.2591),
    "stylegan3": (2.6379, 2.6364, 2.6354),
    "inr-gan": (2.6293, 2.5688, 2.5478),
    "infty-diff": (1.7660, 1.2084, 0.4610),
    "ddo": (1.2891, 1.2879, 1.2803),
}

# Table 1: CRPS at M_i, at M_o without M_i, on the grid.
STRATEGY: dict[str, tuple[float, float, float]] = {
    "none": (0.025, 0.066, 0.069),
    "nearest": (0.169, 0.229, 0.222),
    "rbf": (0.081, 0.139, 0.133),
}

# Table 2: CRPS of SOLID by pattern and amount: global, instance. Its 10 % random entry is Table 5's of a tenth of data.
PATTERNS: dict[str, tuple[float, float]] = {
    "random-4": (1.37, 1.23),
    "random-10": (0.67, 0.48),
    "random-40": (0.31, 0.10),
    "block-2": (1.37, 2.06),
    "block-6": (2.04, 1.84),
    "block-26": (0.97, 0.95),
}

RHO = 0.7  # "highly correlated": the correlation of spread with error that it reports, of which kind it does not say
LAMBDA = (0.05, 0.1)  # where it finds the optimum


def beside(values: tuple[float, ...] | None, count: int = 3) -> list[str]:
    """Numbers of the paper for a row of ours, in standard deviations of the field."""
    return ["-"] * count if values is None else [f"{value / STD:.3f}" for value in values]


def best_rival() -> tuple[str, float]:
    """The lowest CRPS of the nine at 10 %."""
    nine = {name: row[1] for name, row in SPARSITY.items() if name != "solid"}
    name = min(nine, key=lambda rival: nine[rival])
    return name, nine[name]
