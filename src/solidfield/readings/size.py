"""How large readings usually are, and which are beyond any such size: no measurement is, whatever it measures.

    size = |median| + (95 % quantile - 5 % quantile)

A number more than BEYOND times the size of the first readings (a fill value, a lost decimal point, 1e30) is refused by
its row. Some numbers stand for no value: -999, 9999, nines all of them, and the ends of 16 bits. One that lies far
beyond all of the first readings is refused by its row, too; where readings come near it, it is a reading.

Where single readings are no longer known (frames, queries), one more than WILD times the size is an error:
maps are float32, which keeps seven digits, so beside such a number one digit of all the others is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import SolidError

BEYOND = 1e12
WILD = 1e6
NINES = sorted({float(f"{sign}{'9' * n}{rest}") for n in range(2, 8) for rest in ("", ".9", ".99", ".999", ".0")
                for sign in ("-", "+") if sign == "-" or n > 3} | {-32768.0, -32767.0, 32767.0})  # fmt: skip
FAR_BELOW, FAR_ABOVE = 2.0, 10.0  # times the largest of the first readings: above, a rare reading may lie far out
ENOUGH = 3  # readings by which it is told
SAMPLE = 100_000  # readings that tell the size


def usual_size(values: np.ndarray) -> float:  # (...) NaN = not read; 0: nothing is known
    """
    >>> usual_size(np.array([10.0, 10.0, 10.0, np.nan]))
    10.0
    """
    known = values[np.isfinite(values)]
    some = known[:: max(1, len(known) // SAMPLE)].astype(np.float64)
    if not some.any():
        return 0.0
    low, middle, high = np.quantile(some, [0.05, 0.5, 0.95])
    return float(abs(middle) + high - low) or float(np.median(np.abs(some[some != 0])))


def no_values(values: np.ndarray) -> np.ndarray:  # (n,) of the first readings -> which numbers stand for none
    """
    >>> -999 in no_values(np.array([12.0, 31.0, -999.0, 8.0] * 5)), -999 in no_values(np.linspace(-2000.0, 9000.0, 20))
    (True, False)
    """
    known = values[np.isfinite(values)]
    known = known[~np.isin(known, NINES)]
    if len(known) < ENOUGH:
        return np.zeros(0)
    largest, nines = float(np.abs(known).max()), np.array(NINES)
    return nines[np.where(nines < 0, nines < -FAR_BELOW * largest, nines > FAR_ABOVE * largest) & (largest > 0)]


def refuse_wild(
    values: np.ndarray,  # (T, C, H, W), NaN = not read
    variables: Sequence[str],  # (C,)
    sizes: Sequence[float],  # (C,) as `usual_size` says
    whose: str,  # the sizes, in words
) -> None:
    """Refuse readings beside which all others vanish."""
    for c, (name, size) in enumerate(zip(variables, sizes, strict=True)):
        largest = float(np.nanmax(np.abs(values[:, c]), initial=0.0))
        if largest > WILD * size > 0:
            raise SolidError(
                f"'{name}' holds {largest:g}, more than a million times {whose} (about {size:.3g}); leave it out, "
                "for instance with --drop-above"
            )
