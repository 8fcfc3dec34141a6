"""The vorticity equation in Fourier space: transforms, rate of change, Runge-Kutta step, stability guard.

    w(x) = sum over |k_x|, |k_y| <= K of W(k) exp(i k . x),      dW/dt = L W + N(W),      L = -viscosity k^2

- Products are formed on M x M points with 3 K < M (the 2/3 rule): they alias only onto modes that are
  dropped. The advection is taken as (dxx - dyy)(u v) + dx dy (v^2 - u^2): four transforms for each N
  instead of five.
- A step is Runge-Kutta 4 in exp(-L t) W, so diffusion is exact. ETDRK4 has the same error at the same step
  here (7.2e-5 and 7.3e-5 over one time unit with step 0.02) and needs more coefficients.
- Rows of a batch do not touch each other, to the bit. Outside the transforms there are only real sums and
  products, which IEEE arithmetic rounds alike in every batch (a complex product may be fused or not). The
  transforms are SciPy's, which take lines in groups of 2, 4 or 8; M is a multiple of 4, the columns are
  padded to one and the velocity has two components, so a group never holds lines of two rows of the batch,
  and no line changes its place in a group.

A state is (B, M, 2 C) float64: rows k_y in FFT order, C >= K + 1 columns k_x = 0, 1, ..., real and
imaginary parts in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
import scipy.fft

from ..errors import SolidError

COURANT_LIMIT = 2 * sqrt(2)  # where Runge-Kutta 4 stops being stable for pure advection
CHECK_EVERY = 4  # steps between two looks at the Courant number


class Unstable(SolidError):
    """The flow outran the time step."""


@dataclass(frozen=True)
class Modes:
    """The constants of the equation on one box, ready to multiply a state."""

    points: int  # M
    band: int  # K
    unit: float  # wavenumber of mode 1
    velocity: np.ndarray  # (2, M, C): W times this times i is the velocity along (x, y)
    advection: np.ndarray  # (2, M, 2 C): weights of the transforms of u v and v^2 - u^2
    damping: np.ndarray  # (M, 2 C): L
    forcing: np.ndarray  # (M, 2 C)


def make_modes(side: float, points: int, viscosity: float, forcing: float, periods: int) -> Modes:
    """The modes of a box with forcing * cos(2 pi periods y / side)."""
    band = (points - 1) // 3
    columns = -(-(band + 1) // 4) * 4
    unit = 2 * pi / side
    n_y = np.rint(points * scipy.fft.fftfreq(points))[:, None]  # (M, 1)
    n_x = np.arange(columns)[None, :]  # (1, C)
    keep = (np.abs(n_y) <= band) & (n_x <= band)
    k_y, k_x = unit * n_y * keep, unit * n_x * keep
    square = k_x**2 + k_y**2
    inverse = np.divide(1.0, square, out=np.zeros_like(square), where=square > 0)
    force = np.zeros((points, columns))
    force[[periods, -periods], 0] = forcing / 2  # cos has two modes, both real
    return Modes(
        points=points,
        band=band,
        unit=unit,
        velocity=np.stack([k_y * inverse, -k_x * inverse]),
        advection=_both(np.stack([k_x**2 - k_y**2, k_x * k_y]) / points**2),
        damping=_both(-viscosity * square),
        forcing=np.stack([force, np.zeros_like(force)], axis=-1).reshape(points, -1),
    )


def _both(weights: np.ndarray) -> np.ndarray:  # (..., C) -> (..., 2 C)
    """The same real weight for the real and the imaginary part."""
    return np.repeat(weights, 2, axis=-1)


def tendency(
    state: np.ndarray,  # (B, M, 2 C)
    modes: Modes,
) -> tuple[np.ndarray, np.ndarray]:  # (B, M, 2 C), (B, 2, M, M)
    """N(W), advection and forcing, and the velocity (u, v) it was computed from."""
    m, columns = modes.points, state.shape[-1] // 2
    hat = np.empty((len(state), 2, m, columns), np.complex128)
    np.multiply(modes.velocity, state[:, None, :, 1::2], out=hat.real)
    np.negative(hat.real, out=hat.real)  # i (a + i b) = -b + i a
    np.multiply(modes.velocity, state[:, None, :, 0::2], out=hat.imag)
    hat = scipy.fft.ifft(hat, axis=-2, norm="forward", overwrite_x=True)
    velocity = scipy.fft.irfft(hat, n=m, axis=-1, norm="forward", overwrite_x=True)
    u, v = velocity[:, 0], velocity[:, 1]
    products = np.empty_like(velocity)
    np.multiply(u, v, out=products[:, 0])
    np.subtract(v, u, out=products[:, 1])
    products[:, 1] *= u + v
    hat = scipy.fft.rfft(products, axis=-1, overwrite_x=True)[..., :columns]
    terms = scipy.fft.fft(hat, axis=-2).view(np.float64)
    terms *= modes.advection
    rate = terms[:, 0] + terms[:, 1]
    rate += modes.forcing
    return rate, velocity


def advance(
    state: np.ndarray,  # (B, M, 2 C)
    modes: Modes,
    step: float,
    steps: int,
    names: Sequence[int],  # B, for the error message
    time: float,  # at the start
) -> np.ndarray:  # (B, M, 2 C)
    """Take some steps; a row that becomes unstable is an error that names it."""
    half = np.exp(0.5 * step * modes.damping)
    for n in range(steps):
        a, velocity = tendency(state, modes)
        if n % CHECK_EVERY == 0:
            guard(velocity, modes, step, names, time + n * step)
        faded = half * state
        b, _ = tendency(half * (state + (step / 2) * a), modes)
        c, _ = tendency(faded + (step / 2) * b, modes)
        d, _ = tendency(half * (faded + step * c), modes)
        a *= half
        a += 2 * (b + c)
        a *= step / 6
        a += faded
        a *= half
        a += (step / 6) * d
        state = a
    return state


def guard(velocity: np.ndarray, modes: Modes, step: float, names: Sequence[int], time: float) -> None:
    """Stop before a blow-up: step * highest wavenumber * highest speed must stay in the stable range."""
    speed = np.sqrt(np.max(velocity[:, 0] ** 2 + velocity[:, 1] ** 2, axis=(-2, -1)))  # (B,)
    courant = step * modes.unit * modes.band * speed
    stable = courant <= COURANT_LIMIT  # False for NaN too
    if not stable.all():
        worst = int(np.argmin(stable))
        raise Unstable(
            f"trajectory {names[worst]} is unstable at time {time:.4g} (first frame = 0): Courant number "
            f"{courant[worst]:.3g} above {COURANT_LIMIT:.3g}; use a smaller step, say step={step / 2:.2g}"
        )


def evaluate(state: np.ndarray, modes: Modes, cells: int) -> np.ndarray:  # (M, 2 C) -> (cells, cells)
    """The field of one state at the points of another grid, coarser or finer."""
    k = modes.band
    rows, columns = np.r_[0 : k + 1, -k:0], np.arange(k + 1)
    half = np.ascontiguousarray(state).view(np.complex128)[rows, : k + 1]  # (2 K + 1, K + 1)
    half[:, 0] /= 2  # the field is twice the real part of the modes k_x >= 0, with k_x = 0 counted once
    spectrum = np.zeros((cells, cells), np.complex128)
    np.add.at(spectrum, (rows[:, None] % cells, columns[None, :] % cells), half)
    return 2 * scipy.fft.ifft2(spectrum, norm="forward").real


def transform(field: np.ndarray, modes: Modes) -> np.ndarray:  # (cells, cells) -> (M, 2 C)
    """The state of one field, without its mean and the modes that its grid or the band cannot hold."""
    k = min(modes.band, (field.shape[0] - 1) // 2)
    rows = np.r_[0 : k + 1, -k:0]
    state = np.zeros(modes.velocity.shape[1:], np.complex128)
    state[rows, : k + 1] = scipy.fft.rfft2(field, norm="forward")[rows, : k + 1]
    state[0, 0] = 0
    return state.view(np.float64)


def random_state(draws: np.random.Generator, modes: Modes, alpha: float, tau: float) -> np.ndarray:  # (M, 2 C)
    """A Gaussian random field: covariance s^2 (-lap + tau^2)^(-alpha), s = tau^(alpha - 1), mean zero.

    Modes are drawn shell by shell of max(|k_x|, |k_y|), so a wider band adds modes to the same field.
    """
    k = modes.band
    n_y, n_x = (index.ravel() for index in np.mgrid[-k : k + 1, 0 : k + 1])
    half = (n_x > 0) | (n_y > 0)  # the other half plane holds the conjugates
    n_y, n_x = n_y[half], n_x[half]
    order = np.lexsort((n_x, n_y, np.maximum(np.abs(n_y), n_x)))
    n_y, n_x = n_y[order], n_x[order]
    normals = draws.standard_normal((len(n_y), 2))
    amplitude = np.sqrt(random_spectrum(modes.unit**2 * (n_y**2 + n_x**2), alpha, tau) / 2)
    state = np.zeros(modes.velocity.shape[1:], np.complex128)
    state[n_y, n_x] = amplitude * (normals[:, 0] + 1j * normals[:, 1])
    state[-np.arange(1, k + 1), 0] = state[1 : k + 1, 0].conj()
    return state.view(np.float64)


def random_spectrum(square: np.ndarray, alpha: float, tau: float) -> np.ndarray:
    """Variance of a mode of the random field, as a function of k^2."""
    return np.asarray(tau ** (2 * (alpha - 1)) * (square + tau**2) ** -alpha)
