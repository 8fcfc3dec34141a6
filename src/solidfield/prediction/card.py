"""Maps and runs as cards for notebooks: HTML and SVG without scripts, below 60 kB whatever the size of the grid.

A small map is a picture of at most 96 x 96 points with 64 colours inside an SVG that adds its frame, the coordinates of
its edges, the sensors and a colour bar. Text from the data is escaped.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ..clock import as_text
from ..grid import lengths
from ..keys import evenly
from ..readings.axes import axes_of

if TYPE_CHECKING:  # a picture does not wait for torch
    from ..training.record import RunRecord

MOST, COLOURS, CLEAR = 96, 64, 255  # points along an axis, colours, and the one that is none
WIDE = 210.0  # of a map, in points of the SVG
SENSORS = 150  # drawn at most, evenly chosen
STYLE = "font:13px system-ui,sans-serif;display:inline-block;border:1px solid #8886;border-radius:8px;padding:10px 14px"


def card(title: str, lines: Mapping[str, str], pictures: Sequence[str] = ()) -> str:
    """A heading, lines of what and how, and pictures side by side."""
    cell = '<td style="text-align:left">'
    rows = "".join(f"<tr>{cell}{escape(name)}</td>{cell}{escape(text)}</td></tr>" for name, text in lines.items())
    return (
        f'<div style="{STYLE}"><strong>{escape(title)}</strong><table>{rows}</table>'
        f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(pictures)}</div></div>'
    )


def run_card(run: RunRecord) -> str:
    """What the run is, where it was taught, and the verdict of its report where there is one."""
    (dy, dx), unit = lengths(run.grid)
    name, taught = run.variables[0], ~run.never_supervised.any(0).numpy() & run.grid.inside
    history = run.info.get("history", {})
    lines = {
        "folder": str(run.path),
        "predicts": ", ".join(f"{v} [{u}]" if u else v for v, u in zip(run.variables, run.units, strict=True)),
        "cells": f"{' x '.join(map(str, run.grid.shape))} of {dy:.3g} x {dx:.3g} {unit}".removesuffix(" 1"),
        "step": run.clock.words if run.clock else f"{run.step:g}",
        "leads": ", ".join(f"{lead:g}" for lead in run.info["data"]["leads"]),
        "taught": f"{int(taught.sum()):,} of {int(run.grid.inside.sum()):,} cells",
    }
    if "crps" in history:
        lines["validation"] = f"CRPS {history['crps']:.3g} in standard deviations, after {history['steps']:,} steps"
    report = run.path.with_name(f"{run.path.name}-report") / "scores.json"
    if report.is_file():
        found = json.loads(report.read_text()).get("verdict", {})
        lines |= {"verdict": str(found.get("headline", "")), "the map": str(found.get("map", ""))}
    where = np.where(run.grid.inside, taught.astype(float), np.nan)
    drawn = picture(where, run.grid.y, run.grid.x, f"cells that readings of {name} taught: 1")
    return card(f"Run of {run.model.label()}", lines, [drawn])


def maps_card(maps: xr.Dataset) -> str:
    """What maps are of, and the mean and spread of their first variable at their first time."""
    y, x = axes_of(maps)
    name = next(str(each) for each in maps.data_vars if str(each).endswith("_mean")).removesuffix("_mean")
    first = maps.isel(init_time=0, lead_time=0)
    units = str(maps[f"{name}_mean"].attrs.get("units", ""))
    read = first["observed"].any("variable") if "variable" in first["observed"].dims else first["observed"]
    starts, leads = maps["init_time"].values, maps["lead_time"].values
    lines = {
        "cells": f"{maps.sizes[y]} x {maps.sizes[x]}, {_range(maps[y])} and {_range(maps[x])}",
        "starts": _between(starts),
        "leads": _between(leads),
        "members": f"{maps.sizes['member']:,}" if "member" in maps.sizes else "not kept",
        "sensors": f"{int(read.sum()):,} cells read at the first start",
        "holds": ", ".join(str(each) for each in maps.data_vars),
    }
    drawn = {"mean": f"mean of {name}", "std": f"spread of {name}"}
    pictures = [
        picture(
            first[f"{name}_{kind}"].transpose(y, x).values, maps[y].values, maps[x].values, words, units, read.values
        )
        for kind, words in drawn.items()
        if f"{name}_{kind}" in maps
    ]
    return card(str(maps.attrs.get("title", f"maps of {name}")), lines, pictures)


def picture(
    values: np.ndarray,  # (H, W), NaN = no value
    y: np.ndarray,  # (H,) ascending
    x: np.ndarray,  # (W,)
    caption: str,
    units: str = "",
    sensors: np.ndarray | None = None,  # (H, W)
) -> str:
    """A small map as SVG."""
    import cmocean  # with matplotlib, which only a picture waits for

    known = values[np.isfinite(values)]
    low, high = (float(v) for v in np.percentile(known, [1, 99])) if len(known) else (0.0, 1.0)
    low, high, signs = about_zero(low, high)
    high = high if high > low else low + 1.0
    scale = cmocean.cm.amp if caption.startswith("spread") else cmocean.cm.balance if signs else cmocean.cm.thermal
    colours = np.round(255 * scale(np.linspace(0, 1, COLOURS))[:, :3]).astype(np.uint8)
    thin = tuple(slice(None, None, -(-size // MOST)) for size in values.shape)
    small = np.flipud(values[thin])  # the north is up
    with np.errstate(invalid="ignore"):
        steps = np.clip((small - low) / (high - low) * COLOURS, 0, COLOURS - 1)
    codes = np.where(np.isfinite(small), steps, CLEAR).astype(np.uint8)
    tall = WIDE * float(np.clip(_shape(y, x), 0.3, 2.0))
    place = "text-anchor"
    texts = [
        (2, 12, "start", f"{caption}{f' [{units}]' if units else ''}"),
        (0, tall + 34, "start", f"{x[0]:.4g}"),
        (WIDE, tall + 34, "end", f"{x[-1]:.4g}"),
        (WIDE + 24, 28, "start", f"{high:.3g}"),
        (WIDE + 24, tall + 20, "start", f"{low:.3g}"),
    ]
    words = "".join(f'<text x="{a:.0f}" y="{b:.0f}" {place}="{c}">{escape(text)}</text>' for a, b, c, text in texts)
    dots = "" if sensors is None else _dots(np.asarray(sensors) > 0, tall)
    bar = np.repeat(np.arange(COLOURS, dtype=np.uint8)[::-1, None], 2, axis=1)
    return (
        f'<svg viewBox="0 0 {WIDE + 66:.0f} {tall + 40:.0f}" width="{WIDE + 66:.0f}" role="img" '
        f'aria-label="{escape(caption)}" fill="currentColor" font-size="11">{words}'
        f"{_image(codes, colours, 0, 20, WIDE, tall)}{_image(bar, colours, WIDE + 8, 20, 10, tall)}"
        f'<rect y="20" width="{WIDE}" height="{tall:.0f}" fill="none" stroke="currentColor" opacity=".5"/>{dots}</svg>'
    )


def about_zero(low: float, high: float) -> tuple[float, float, bool]:
    """Limits of a colour scale, as far up as down where both signs matter; and whether they do, so that it diverges."""
    both, most = low < 0 < high and min(-low, high) > 0.1 * max(-low, high), max(-low, high)
    return (-most, most, True) if both else (low, high, False)


def _shape(y: np.ndarray, x: np.ndarray) -> float:
    """Height by width; on the Earth degrees of longitude are shorter than those of latitude."""
    geographic = np.abs(y).max() <= 90 and np.ptp(x) <= 360 and len(y) > 1
    return (np.ptp(y) or 1.0) / ((np.ptp(x) or 1.0) * (max(np.cos(np.deg2rad(y.mean())), 0.1) if geographic else 1.0))


def _dots(read: np.ndarray, tall: float) -> str:
    rows, columns = np.nonzero(read)
    pick = evenly(np.arange(len(rows)), min(len(rows), SENSORS))
    H, W = read.shape
    return "".join(
        f'<circle cx="{WIDE * (columns[k] + 0.5) / W:.0f}" cy="{20 + tall * (1 - (rows[k] + 0.5) / H):.0f}" r="1.6" '
        'fill="#111" stroke="#fff" stroke-width=".7"/>'
        for k in pick
    )


def _image(codes: np.ndarray, colours: np.ndarray, x: float, y: float, width: float, height: float) -> str:
    data = base64.b64encode(png(codes, colours)).decode()
    return (
        f'<image x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
    )


def png(
    codes: np.ndarray,  # (H, W) uint8: a colour of the table, or CLEAR
    colours: np.ndarray,  # (n, 3) uint8
) -> bytes:
    """A PNG with a table of colours; CLEAR is transparent."""
    table = np.zeros((CLEAR + 1, 3), np.uint8)
    table[: len(colours)] = colours
    rows = np.pad(codes, ((0, 0), (1, 0)))  # each row begins with its filter, 0: none
    head = struct.pack(">IIBBBBB", codes.shape[1], codes.shape[0], 8, 3, 0, 0, 0)
    alpha = bytes([255] * CLEAR + [0])
    parts = {
        b"IHDR": head,
        b"PLTE": table.tobytes(),
        b"tRNS": alpha,
        b"IDAT": zlib.compress(rows.tobytes(), 9),
        b"IEND": b"",
    }
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _range(axis: xr.DataArray) -> str:
    return f"{axis.name} {float(axis[0]):.5g} to {float(axis[-1]):.5g} {axis.attrs.get('units', '')}".strip()


def _between(times: np.ndarray) -> str:
    """How many times, from the first to the last."""
    words = [_time(times[k]) for k in (0, -1)]
    return words[0] if len(times) == 1 else f"{len(times):,}, {words[0]} to {words[1]}"


def _time(time: Any) -> str:
    if isinstance(time, np.datetime64):
        return f"{as_text(time)} UTC"
    if isinstance(time, np.timedelta64):
        return f"{time / np.timedelta64(1, 'h'):g} h"
    return f"{float(time):g}"
