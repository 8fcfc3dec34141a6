"""The law of one cell: a distribution on the line, given what the encoder says of the cell.

A law turns features f into a monotone map x = Q(z; f) of a standard normal latent z, and learns it from observed
targets alone: it never needs a neighbour, so nothing off M_o is ever missing. Two laws share one interface (`law.py`):
a mixture of Gaussians by likelihood (`mixture_law.py`), and the paper's denoising objective, begun where a mixture ends
(`diffusion_law.py`).
"""

from __future__ import annotations

from .diffusion_law import DiffusionLaw
from .law import Law
from .mixture_law import MixtureLaw

LAWS: dict[str, type[Law]] = {law.name: law for law in (MixtureLaw, DiffusionLaw)}
