"""How values at many places and times hang together, given readings: latents with N(0, 1) marginals.

Under the covariance C the field a at the places and times that are asked for, given readings r with errors, has

    Cov = C_aa - C_ar (C_rr + E)^-1 C_ra,      z = (draw of a given r - its mean) / its standard deviation.

A law per value (`laws.py`) turns z into a member, so a member is one possible history of the whole map: the mean of
six hours or the maximum of a day of members has an honest law. Few values are drawn from the dense Cov. Many are drawn
by Matheron's rule from a field on the whole box,

    a - C_ar (C_rr + E)^-1 (r + e),      (a, r) an unconditional draw by Fourier transform (circulant embedding),

whose cost is that of the transform and of the readings' own matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..noise import Noise
from .spacetime import SpaceTime

DENSE = 1500  # values up to which their covariance is factored as it is
READINGS = 1000  # those used at most: the ones that share most with what is asked for
JITTER = 1e-5  # of the variance


@torch.no_grad()
def joint_latents(
    model: SpaceTime,
    asked: Tensor,  # (N, 3) int64: frame, row, column
    known: Tensor,  # (n, 3) int64
    errors: Tensor,  # (n,) variances of the readings' errors, besides the nugget
    noise: Noise,  # of (K, 1) draws
) -> Tensor:  # (K, N)
    """Draws of the latents, one row a member."""
    known, errors = _most_telling(model, asked, known, errors)
    factor, cross, variance = _conditioning(model, asked, known, errors)
    if len(asked) <= DENSE:
        half = torch.linalg.solve_triangular(factor, cross.T, upper=False) if len(known) else cross.T
        covariance = model(asked[None] - asked[:, None]).double() - half.T @ half
        covariance.diagonal().add_(JITTER * float(model.variance))
        root = torch.linalg.cholesky(covariance)
        scale = covariance.diagonal().sqrt()
        white = noise((len(asked),))[:, 0].double()  # (K, N)
        return (white @ root.T / scale).float()
    both = torch.cat([asked, known])
    field = _unconditional(model, both, noise)  # (K, N + n)
    draw, read = field[:, : len(asked)], field[:, len(asked) :]
    if len(known):
        read = read + (errors + model.nugget).sqrt() * noise((len(known),))[:, 0]
        draw = draw - (cross @ torch.cholesky_solve(read.double().T, factor)).T.float()
    return draw / variance.sqrt().float()


def _most_telling(model: SpaceTime, asked: Tensor, known: Tensor, errors: Tensor) -> tuple[Tensor, Tensor]:
    """Not more readings than can be solved for: those with the largest covariance with anything asked for."""
    if len(known) <= READINGS:
        return known, errors
    some = asked[torch.linspace(0, len(asked) - 1, min(len(asked), 200)).long()]
    telling = model(known[None] - some[:, None]).amax(0)
    best = telling.topk(READINGS).indices.sort().values
    return known[best], errors[best]


def _conditioning(
    model: SpaceTime, asked: Tensor, known: Tensor, errors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:  # (n, n) Cholesky factor, (N, n) cross covariance, (N,) what is left of C(0)
    k = model(known[None] - known[:, None]).double()
    k.diagonal().add_(errors.double() + float(model.nugget))
    factor = torch.linalg.cholesky(k)
    cross = torch.cat([model(known[None] - part[:, None]) for part in asked.split(4096)]).double()
    left = [torch.linalg.solve_triangular(factor, part.T, upper=False).square().sum(0) for part in cross.split(4096)]
    total = float(model.variance)
    return factor, cross, (total - torch.cat(left)).clamp_min(JITTER * total)


def _unconditional(model: SpaceTime, places: Tensor, noise: Noise) -> Tensor:  # (n, 3) -> (K, n)
    """A stationary field at whole places of a box, from the spectrum of its covariance on a box twice as large."""
    first = places.amin(0)
    extent = (places.amax(0) - first + 1).tolist()
    wraps = (False, *model.grid.periodic)
    sizes = [n if wrap else 2 * n for n, wrap in zip((extent[0], *_around(model, extent)), wraps, strict=True)]
    steps = [torch.cat([torch.arange((n + 1) // 2), torch.arange((n + 1) // 2, n) - n]) for n in sizes]
    offsets = torch.stack(torch.meshgrid(*steps, indexing="ij"), -1).flatten(0, 2)
    kernel = torch.cat([model(part) for part in offsets.split(2**18)]).reshape(sizes)
    spectrum = torch.fft.fftn(kernel.double()).real.clamp_min(0)
    spectrum *= float(model.variance) / float(spectrum.mean())  # what clipping added is taken off everywhere
    white = noise((*sizes,))[:, 0]  # (K, ...)
    root = spectrum.sqrt().float()
    place = places - first
    flat = (place[:, 0] * sizes[1] + place[:, 1]) * sizes[2] + place[:, 2]
    return torch.stack([torch.fft.ifftn(torch.fft.fftn(w) * root).real.flatten()[flat] for w in white])


def _around(model: SpaceTime, extent: list[int]) -> tuple[int, int]:
    """A periodic axis is taken whole, whatever part of it is asked for."""
    rows, columns = (
        whole if wraps else part
        for whole, wraps, part in zip(model.grid.shape, model.grid.periodic, extent[1:], strict=True)
    )
    return rows, columns
