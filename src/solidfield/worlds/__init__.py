"""Worlds whose truth is known: turbulence to learn from, Gaussian fields to measure with, their store."""

from .gaussian import GaussianWorld, Posterior, gaussian_world
from .navier_stokes import NavierStokes, simulate_navier_stokes
from .store import Truth, World, open_truth, write_truth
from .warped import WarpedPosterior, WarpedWorld

__all__ = [
    "GaussianWorld",
    "NavierStokes",
    "Posterior",
    "Truth",
    "WarpedPosterior",
    "WarpedWorld",
    "World",
    "gaussian_world",
    "open_truth",
    "simulate_navier_stokes",
    "write_truth",
]
