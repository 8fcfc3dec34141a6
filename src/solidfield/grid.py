"""The cells: where a field lives, how far apart its cells are, which axes wrap around, which cells count.

    cell (i, j) covers  [origin + (i - 1/2) spacing, origin + (i + 1/2) spacing)   along each axis

Axis order is (y, x) everywhere. `origin` is the coordinate of the centre of cell (0, 0).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .errors import SolidError

RADIUS = 6371.0088  # km, of the Earth as a sphere
DEGREE = 111.19508  # km: a degree of latitude on it
EDGE = 1e-9  # of a cell: a coordinate this close below an edge was meant to lie on it
COUNTED = 2.0**52  # beyond it a float64 no longer tells a cell from the next

Bounds = tuple[float, float, float, float]  # south, west, north, east


@dataclass(frozen=True)
class Grid:
    """A regular grid of H x W cells.

    Parameters
    ----------
    shape : tuple of int
        (H, W), rows and columns.
    spacing : tuple of float
        Size of a cell along (y, x), in `units`. Default 1.
    origin : tuple of float
        Coordinate of the centre of cell (0, 0). Default 0.
    periodic : tuple of bool
        Does the axis wrap around? Default: neither does.
    axes : tuple of str
        Names of the axes: ("y", "x"), the default, or ("lat", "lon").
    units : str
        Of the coordinates.
    domain : array (H, W) of bool, optional
        True for a cell that counts. Default: all do.

    Raises
    ------
    SolidError
        If an axis is empty, a spacing is not positive, or the domain has another shape.

    Examples
    --------
    >>> Grid.box(4, 4, side=2.0).x
    array([0. , 0.5, 1. , 1.5])
    """

    shape: tuple[int, int]  # (H, W)
    spacing: tuple[float, float] = (1.0, 1.0)  # size of a cell along (y, x)
    origin: tuple[float, float] = (0.0, 0.0)
    periodic: tuple[bool, bool] = (False, False)  # does the axis wrap around?
    axes: tuple[str, str] = ("y", "x")  # or ("lat", "lon")
    units: str = ""
    domain: np.ndarray | None = field(default=None, compare=False, repr=False)  # (H, W) bool, True = a cell that counts

    def __post_init__(self) -> None:
        if min(self.shape) < 1:
            raise SolidError(f"grid shape {self.shape} has an empty axis; both must be at least 1")
        if not all(0 < step < np.inf for step in self.spacing) or not np.isfinite(self.origin).all():
            raise SolidError(f"grid spacing {self.spacing} must be positive along both axes, and its origin finite")
        if self.axes[0] == self.axes[1]:
            raise SolidError(f"both axes of the grid are called '{self.axes[0]}'; give them different names")
        if self.domain is not None and self.domain.shape != self.shape:
            raise SolidError(f"domain mask has shape {self.domain.shape}, the grid {self.shape}; make them equal")

    @classmethod
    def box(cls, height: int, width: int, side: float) -> Grid:
        """A periodic box whose x axis has the given length; cells are square."""
        spacing = side / width
        return cls((height, width), (spacing, spacing), periodic=(True, True))

    @property
    def y(self) -> np.ndarray:  # (H,)
        return self.origin[0] + self.spacing[0] * np.arange(self.shape[0])

    @property
    def x(self) -> np.ndarray:  # (W,)
        return self.origin[1] + self.spacing[1] * np.arange(self.shape[1])

    @property
    def cells(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def inside(self) -> np.ndarray:  # (H, W) bool
        """The cells that count: the domain, or all of them."""
        return np.ones(self.shape, dtype=bool) if self.domain is None else self.domain

    @property
    def bounds(self) -> Bounds:
        """The outer edges."""
        y, x, (dy, dx) = np.round(self.y, 10), np.round(self.x, 10), self.spacing
        edges = (y[0] - dy / 2, x[0] - dx / 2, y[-1] + dy / 2, x[-1] + dx / 2)
        south, west, north, east = (round(float(edge), 10) for edge in edges)
        return south, west, north, east

    def index(self, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (n,), (n,) -> (n,), (n,) int64
        """The cell of each place, along (y, x); beyond the grid the count goes on, of any sign.

        >>> Grid((2, 2), origin=(0.5, 0.5)).index(np.array([0.2, 2.5]), np.array([-0.1, 1.0]))
        (array([0, 2]), array([-1,  1]))
        """
        found = []
        for at, origin, spacing in zip((y, x), self.origin, self.spacing, strict=True):
            count = np.asarray(at - origin)
            count /= spacing  # in place: a new array at every step takes longer than the step
            count += 0.5 + EDGE
            low, high = count.min(initial=0), count.max(initial=0)
            if max(high, -low) > COUNTED:
                raise SolidError(
                    f"cells of {self.spacing} are too small to be counted so far from zero; take larger ones"
                )
            found.append((count if low >= 0 else np.floor(count, out=count)).astype(np.int64))
        return found[0], found[1]

    def near(self, x: np.ndarray) -> np.ndarray:
        """Longitudes as this grid counts them, which may go on beyond 180; other coordinates as they are.

        >>> Grid((1, 5), origin=(0, 178), axes=("lat", "lon")).near(np.array([179.0, -179.0]))
        array([179., 181.])
        """
        return nearest_turn(x, float(self.x.mean())) if self.axes == ("lat", "lon") else x

    def part(self, first: tuple[int, int], shape: tuple[int, int]) -> Grid:
        """So many cells of the same size from cell `first` on, inside this grid or beyond it."""
        (y, x), (dy, dx) = self.origin, self.spacing
        return replace(self, origin=(y + first[0] * dy, x + first[1] * dx), shape=shape, domain=None)

    def with_domain(self, domain: np.ndarray | None) -> Grid:
        return replace(self, domain=domain)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the domain mask, as plain JSON."""
        names = ("shape", "spacing", "origin", "periodic", "axes", "units")
        return {name: list(v) if isinstance(v := getattr(self, name), tuple) else v for name in names}

    @classmethod
    def from_dict(cls, plain: dict[str, Any], domain: np.ndarray | None = None) -> Grid:
        return cls(
            shape=(int(plain["shape"][0]), int(plain["shape"][1])),
            spacing=(float(plain["spacing"][0]), float(plain["spacing"][1])),
            origin=(float(plain["origin"][0]), float(plain["origin"][1])),
            periodic=(bool(plain["periodic"][0]), bool(plain["periodic"][1])),
            axes=(str(plain["axes"][0]), str(plain["axes"][1])),
            units=str(plain["units"]),
            domain=domain,
        )


def nearest_turn(x: np.ndarray, middle: float) -> np.ndarray:
    """Longitudes turned by whole circles to within 180 degrees of one."""
    x = np.asarray(x, float)
    if x.size and x.min() > middle - 180.0 and x.max() < middle + 180.0:
        return x  # there already, as most are
    return x - 360.0 * np.round((x - middle) / 360.0)


def closed(grid: Grid) -> Grid:
    """The grid, which wraps in longitude where its columns go once around the Earth."""
    circle = grid.axes == ("lat", "lon") and abs(grid.shape[1] * grid.spacing[1] - 360.0) < 1e-6 * 360.0
    return replace(grid, periodic=(grid.periodic[0], True)) if circle else grid


def points(grid: Grid, row: np.ndarray, column: np.ndarray) -> np.ndarray:  # (n,), (n,) -> (n, 2 to 4)
    """Cells as points of a space whose straight distances are the grid's, in the unit of `lengths`.

    On the globe they are those of a sphere, and a distance is the chord below the great circle; a periodic axis is a
    circle likewise.

    >>> a, b = points(Grid((2, 2), (90.0, 1.0), axes=("lat", "lon")), np.array([0, 1]), np.array([0, 0]))
    >>> round(float(np.linalg.norm(a - b) / RADIUS) ** 2, 6)
    2.0
    """
    if grid.axes == ("lat", "lon"):
        y, x = (np.deg2rad(o + s * at) for o, s, at in zip(grid.origin, grid.spacing, (row, column), strict=True))
        return RADIUS * np.stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)], -1)
    found = []
    for at, count, size, wraps in zip((row, column), grid.shape, lengths(grid)[0], grid.periodic, strict=True):
        angle, radius = 2 * np.pi * at / count, count * size / (2 * np.pi)
        found += [radius * np.cos(angle), radius * np.sin(angle)] if wraps else [size * at]
    return np.stack(found, -1)


def axis_attributes(grid: Grid) -> tuple[dict[str, str], dict[str, str]]:
    """What CF wants to be said of the y and the x axis."""
    if grid.axes == ("lat", "lon"):
        return (
            {"units": "degrees_north", "standard_name": "latitude", "long_name": "latitude", "axis": "Y"},
            {"units": "degrees_east", "standard_name": "longitude", "long_name": "longitude", "axis": "X"},
        )
    y, x = ({"long_name": f"{axis} of the cell centres", "axis": axis.upper()} for axis in ("y", "x"))
    return y | {"units": grid.units or "1"}, x | {"units": grid.units or "1"}


def flags(long_name: str, no: str, yes: str) -> dict[str, Any]:
    """Attributes of a mask of 0 and 1, in CF's way."""
    return {"long_name": long_name, "flag_values": np.array([0, 1], np.int8), "flag_meanings": f"{no} {yes}"}


def narrowing(grid: Grid) -> float:
    """The widest row over the narrowest: on the Earth meridians meet, elsewhere it is one."""
    if grid.axes != ("lat", "lon"):
        return 1.0
    wide = np.cos(np.deg2rad(grid.y)).clip(0.01)
    return float(wide.max() / wide.min())


def lengths(grid: Grid) -> tuple[tuple[float, float], str]:  # spacing along (y, x), its unit
    """What distances are told in: kilometres wherever the grid lies on the Earth, else the grid's own unit or cells."""
    (dy, dx), units = grid.spacing, grid.units
    if grid.axes == ("lat", "lon"):
        middle = np.deg2rad(float(grid.y.mean()))
        return (DEGREE * dy, DEGREE * dx * max(float(np.cos(middle)), 0.01)), "km"
    if units in ("m", "metre", "metres", "meter", "meters"):
        return (dy / 1000, dx / 1000), "km"
    return ((dy, dx), units) if units else ((1.0, 1.0), "cells")
