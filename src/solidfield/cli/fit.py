"""solid fit: one image with gaps, learned from itself and filled; how honest it is stands in what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
import xarray as xr

from ..disk import check_ending, open_dataset, refuse_existing
from ..errors import SolidError
from ..pairs.frames import as_frames
from ..prediction.ask import QUANTILES
from ..prediction.image import fill_image
from ..prediction.maps import save_maps, to_dataset
from . import show

ANY_DAY = np.datetime64("2000-01-01", "ns")  # of an image without a time


def fit(
    image: Annotated[Path, typer.Argument(help="A variable on (y, x), NaN in its gaps: .nc or .zarr.")],
    out: Annotated[Path, typer.Option(help="The filled maps to write: .nc or .zarr.")],
    variable: Annotated[str | None, typer.Option(help="Which one, where there are several.")] = None,
    members: Annotated[int, typer.Option(help="Of the ensemble.", min=2)] = 100,
    seed: Annotated[int, typer.Option(help="Same seed, same members.")] = 0,
    transform: Annotated[
        str | None, typer.Option(help="none, sqrt or log; by cells hidden for a trial if not given.")
    ] = None,
    json: show.JsonOption = False,
) -> None:
    """Learn one image with gaps from itself, fill it with members, and say how honest they are."""
    check_ending(out)
    refuse_existing(out)
    picture = _variable(image, variable)
    when = picture["time"].values if "time" in picture.coords and picture["time"].size == 1 else ANY_DAY
    plain = picture.drop_vars([name for name in picture.coords if name not in picture.dims])
    dated = plain.expand_dims(time=[np.datetime64(np.asarray(when).reshape(-1)[0], "ns")])
    frames = as_frames(dated, every="1h")  # one frame has no step
    values = frames.values[0, 0].astype(float)
    filled = fill_image(values, members, seed, transform)
    learned = filled.image
    read = np.isfinite(values)[None, None]
    maps = to_dataset(
        filled.summary(QUANTILES),
        frames.grid,
        frames.variables,
        frames.units,
        read,
        ~read[0],
        frames.times,
        np.zeros(1, "timedelta64[ns]"),
        attributes={
            "title": f"{frames.variables[0]} of {image.name}, its gaps filled",
            "seed": seed,
            "transform": learned.transform,
            "transform_reason": learned.why,
            **learned.honesty,
        },
        given=np.where(read, values, 0.0),
    )
    save_maps(maps, out)
    if json:
        counts = {"filled": int((~read).sum()), "given": int(read.sum())}
        show.as_json({"out": str(out), **counts, "transform": learned.transform, **learned.honesty})
        return
    honest = learned.honesty
    show.line("filled", f"{int((~read).sum()):,} cells beside {int(read.sum()):,} that were read; {out}")
    show.line("modelled", learned.why)
    show.line(
        "honest?",
        f"where the shape of the gaps hid readings elsewhere: 95 % intervals hold {100 * honest['coverage']:.1f} %, "
        f"mean error {honest['mae']:.3g}, CRPS {honest['crps']:.3g}",
    )


def _variable(path: Path, name: str | None) -> xr.DataArray:
    if not path.exists():
        raise SolidError(f"no image at {path}; give a NetCDF or Zarr file")
    data = open_dataset(path, "write it anew")
    flat = [str(key) for key, values in data.data_vars.items() if values.squeeze(drop=True).ndim == 2]
    chosen = name or (flat[0] if len(flat) == 1 else None)
    if chosen not in flat:
        raise SolidError(f"{path} has images {', '.join(flat) or 'none'}; choose one with --variable")
    return data[chosen].squeeze()
