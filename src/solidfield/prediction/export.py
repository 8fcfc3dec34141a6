"""Layers of maps for other programs: GeoTIFF with coordinates, units and times, which any GIS opens.

    mean, spread         as stored, or from the members
    quantile, chance     of the members in each cell: their p-quantile; the share of them above a threshold
    member               one of them, or all
    any other name       a field that the maps hold, such as `distance_to_sensor`

Rows run from north to south, whatever the maps do. Every time (and member, where all are asked for) is a band. Values
are read tile by tile, so that maps may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import xarray as xr

from ..clock import as_text, instant
from ..disk import refuse_existing
from ..engine import Progress
from ..errors import SolidError
from ..grid import Grid
from ..readings.axes import axes_of, grid_of
from .geotiff import Raster, write_geotiff
from .maps import open_maps

BLOCK = 16_000_000  # values of members that are held at once
BANDS = 65_535  # of a TIFF
TURNED = slice(None, None, -1)
WGS84 = 4326  # EPSG's code of latitude and longitude
TIMES = ("init_time", "lead_time")
NUMBER = {"quantile": "quantile", "chance": "above", "member": "member"}  # what a layer needs to know

REDUCED: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {  # (K, h, w) members -> (h, w)
    "mean": lambda x, _: x.mean(0),
    "spread": lambda x, _: x.std(0, ddof=1 if len(x) > 1 else 0),
    "quantile": lambda x, p: np.quantile(x, p, axis=0),
    "chance": lambda x, u: np.where(np.isnan(x).any(0), np.nan, (x > u).mean(0)),
}


def export(
    maps: xr.Dataset | str | Path,
    out: str | Path,
    layer: str = "mean",
    *,
    variable: str | None = None,
    quantile: float | None = None,
    above: float | None = None,
    member: int | None = None,
    at: Sequence[Any] | None = None,
    crs: str | int | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a layer of maps as a cloud-optimised GeoTIFF: tiled, with overviews, one band a time.

    Parameters
    ----------
    maps : Dataset or path
        Maps, or the .nc file or .zarr folder that holds them, which may be larger than memory.
    out : path
        New file, ending in .tif or .tiff.
    layer : str
        "mean", "spread" (standard deviation), "quantile", "chance", "member", or a field of the maps by its name.
        Default: "mean".
    variable : str, optional
        Of which one. Default: the first.
    quantile : float, optional
        From 0 to 1, for "quantile".
    above : float, optional
        Threshold of "chance", in the units of the variable.
    member : int, optional
        Which one, from 0, for "member". Default: all, a band each.
    at : sequence of times, optional
        Times of the maps to write; text is UTC unless it names a zone. Default: all.
    crs : str or int, optional
        EPSG code of the coordinates, such as "EPSG:32645". Default: 4326 for latitude and longitude; else none.
    progress : callable, optional
        Called with (what, done, total).

    Returns
    -------
    int
        How many bands were written.

    Raises
    ------
    SolidError
        If the file exists, the maps do not hold the layer or the time, or a number is missing or too many.

    Examples
    --------
    >>> import tempfile
    >>> fields = ("member", "init_time", "lead_time", "lat", "lon")
    >>> values = np.arange(8.0).reshape(2, 1, 1, 2, 2)
    >>> maps = xr.Dataset({"pm": (fields, values)}, {"lat": [0.0, 1.0], "lon": [0.0, 1.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(maps, folder + "/chance.tif", "chance", above=5.5)
    1
    """
    out = Path(out)
    if out.suffix.lower() not in (".tif", ".tiff"):
        raise SolidError(f"cannot write {out}: end the name in .tif (GeoTIFF)")
    refuse_existing(out)
    opened = maps if isinstance(maps, xr.Dataset) else open_maps(maps)
    number = _number(layer, {"quantile": quantile, "above": above, "member": member})
    field, reduce, words = _field(opened, layer, variable, number)
    y, x = axes_of(field)
    field = field.transpose(..., y, x)
    field = field.isel({axis: TURNED for axis, down in ((y, True), (x, False)) if _ascends(field[axis]) == down})
    axes = [str(dim) for dim in field.dims if dim not in (y, x) and not (reduce and dim == "member")]
    bands = _bands(field, axes, at)

    def read(band: int, rows: slice, columns: slice) -> np.ndarray:
        return _values(field.isel(bands[band] | {y: rows, x: columns}), reduce)

    def told(done: int, total: int) -> None:
        if progress is not None:
            progress("writing bands", done, total)

    units = "1" if layer == "chance" else str(field.attrs.get("units", ""))
    metadata = _metadata(opened.attrs, [_described(field, band) for band in bands], words, units)
    raster = _raster(grid_of(field.isel({y: TURNED})), len(bands), metadata, crs)
    write_geotiff(out, raster, read, told)
    return len(bands)


def _number(layer: str, given: dict[str, float | None]) -> float | None:
    """The one number that the layer takes."""
    wanted = NUMBER.get(layer)
    for name, value in given.items():
        if value is not None and name != wanted:
            raise SolidError(f"the layer '{layer}' takes no '{name}'; leave it out")
    number = given[wanted] if wanted else None
    if number is None and layer in ("quantile", "chance"):
        raise SolidError(f"the layer '{layer}' needs a number; give '{wanted}'")
    if layer == "quantile" and not 0 <= number <= 1:  # type: ignore[operator]
        raise SolidError(f"a quantile of {number:g} is none; give one from 0 to 1")
    return number


Reduce = Callable[[np.ndarray], np.ndarray]


def _field(
    maps: xr.Dataset, layer: str, variable: str | None, number: float | None
) -> tuple[xr.DataArray, Reduce | None, str]:
    """The field that holds the layer, or the members and how they make it; and what it is called."""
    fields = [str(name) for name in maps.data_vars]
    if layer not in REDUCED and layer != "member":
        if layer not in fields or variable is not None:
            raise SolidError(
                f"no layer '{layer}' of {variable or 'the maps'}; choose mean, spread, quantile, chance or member, or "
                f"without a variable one of {', '.join(fields)}"
            )
        return maps[layer], None, layer
    known = [name for name in fields if "member" in maps[name].dims]
    known += [name.removesuffix("_mean") for name in fields if name.endswith("_mean")]
    name = variable or next(iter(known), "")
    if name not in known:
        raise SolidError(f"the maps hold no '{name}'; they have {', '.join(dict.fromkeys(known)) or 'no variable'}")
    detail = "" if number is None else f" {number:g}"
    words = f"{name} {layer}{' above' if layer == 'chance' else ''}{detail}"
    stored = {"mean": f"{name}_mean", "spread": f"{name}_std"}.get(layer, "")
    if layer == "quantile":
        levels = {maps[key].attrs.get("quantile"): key for key in fields if key.startswith(f"{name}_q")}
        stored = levels.get(number, "")
    if stored in maps:
        return maps[stored], None, words
    if name not in maps:
        raise SolidError(f"these maps hold no members, from which a {layer} comes; predict with members kept")
    members = maps[name].transpose("member", ...)
    if layer != "member":
        how, parameter = REDUCED[layer], number or 0.0
        return members, lambda x: how(x, parameter), words
    if number is not None and not 0 <= number < members.sizes["member"]:
        raise SolidError(f"no member {number:g}; there are {members.sizes['member']}, counted from 0")
    return members if number is None else members.isel(member=int(number)), None, words


def _ascends(axis: xr.DataArray) -> bool:
    return bool(len(axis) < 2 or axis[0] < axis[-1])


def _bands(field: xr.DataArray, axes: Sequence[str], at: Sequence[Any] | None) -> list[dict[str, int]]:
    """Positions along the axes that are no places, of the times asked for."""
    bands = [dict(zip(axes, at, strict=True)) for at in np.ndindex(*(field.sizes[axis] for axis in axes))]
    if at is not None:
        if not set(TIMES) <= set(axes):
            raise SolidError("this layer is of no time of a map; leave 'at' out")
        valid = [_valid(field, band) for band in bands]
        wanted = [instant(time) if isinstance(valid[0], np.datetime64) else float(time) for time in at]
        if missing := [time for time in wanted if time not in valid]:
            raise SolidError(f"no map of {missing[0]}; the maps are of {min(valid)} to {max(valid)}")
        bands = [band for band, time in zip(bands, valid, strict=True) if time in wanted]
    if not 1 <= len(bands) <= BANDS:
        raise SolidError(f"{len(bands):,} bands do not fit into a TIFF of 1 to {BANDS:,}; choose times with 'at'")
    return bands


def _valid(field: xr.DataArray, band: dict[str, int]) -> Any:
    """The time of the map."""
    start, lead = (field[axis].values[band[axis]] for axis in TIMES)
    return start + lead


def _values(tile: xr.DataArray, reduce: Reduce | None) -> np.ndarray:  # (h, w) float32
    """Read, and reduce the members, some rows at a time."""
    if reduce is None:
        return tile.values.astype(np.float32)
    axis = tile.dims[-2]
    rows = max(1, BLOCK // (tile.sizes["member"] * tile.shape[-1]))
    parts = [tile.isel({axis: slice(r, r + rows)}).values for r in range(0, tile.shape[-2], rows)]
    return np.concatenate([reduce(part) for part in parts]).astype(np.float32)


def _raster(grid: Grid, bands: int, metadata: str, crs: str | int | None) -> Raster:
    degrees = grid.axes == ("lat", "lon")
    code = (WGS84 if degrees else None) if crs is None else str(crs).upper().removeprefix("EPSG:")
    if code is not None and not (str(code).isdigit() and 1024 <= int(code) <= 32766):
        raise SolidError(f"no coordinates '{crs}'; give a code of EPSG, such as EPSG:32645")
    if crs is not None and grid.units == "km":
        raise SolidError(
            "the maps count kilometres, and codes of EPSG metres; leave 'crs' out, or scale the coordinates"
        )
    _, west, north, _ = grid.bounds
    return Raster(
        shape=(bands, *grid.shape),
        corner=(west, north),
        cell=(grid.spacing[1], grid.spacing[0]),
        metadata=metadata,
        epsg=None if code is None else int(code),
        degrees=degrees,
    )


def _described(field: xr.DataArray, band: dict[str, int]) -> dict[str, str]:
    """Of which time, member ... a band is."""
    told = {axis: _plain(field[axis].values[place]) for axis, place in band.items()}
    return told | ({"valid_time": _plain(_valid(field, band))} if set(TIMES) <= set(band) else {})


def _metadata(attributes: Mapping[Any, Any], bands: Sequence[dict[str, str]], words: str, units: str) -> str:
    """What GDAL reads of the whole and of each band: what it is, in which units, of which time."""
    items = [_item(name, value) for name, value in attributes.items()]
    for number, told in enumerate(bands):
        described = ", ".join([words, *(f"{name} {value}" for name, value in told.items() if name != "init_time")])
        items += [_item("DESCRIPTION", described, number, "description"), _item("UNITTYPE", units, number, "unittype")]
        items += [_item(name, value, number) for name, value in told.items()]
    return f"<GDALMetadata>{''.join(items)}</GDALMetadata>"


def _item(name: Any, value: Any, band: int | None = None, role: str | None = None) -> str:
    """An entry of GDAL's XML, whose text GDAL unescapes twice."""
    of = "" if band is None else f' sample="{band}"'
    as_ = "" if role is None else f' role="{role}"'
    return f"<Item name={quoteattr(str(name))}{of}{as_}>{escape(escape(str(value)))}</Item>"


def _plain(value: Any) -> str:
    """A time, a length of time or a number as text."""
    if isinstance(value, np.datetime64):
        return f"{as_text(value, 's')}Z"
    return f"{value / np.timedelta64(1, 'h'):g} h" if isinstance(value, np.timedelta64) else str(value)
