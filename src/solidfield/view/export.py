"""One file for a colleague: the page with its style, its code and the maps inside; it asks nothing of any server.

A field is packed into 16-bit steps between its least and greatest value, 65535 where there is none, so that what the
page shows is off by at most a 131,068th of that range; then compressed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..disk import replace
from ..errors import SolidError
from ..keys import evenly
from .assets import page_files
from .server import Exhibition
from .shown import Shown

NONE = 65535
LARGEST = 60e6  # bytes of members before they are packed; more of them are thinned out


def check_page(path: Path) -> None:
    """Refuse a name that no browser opens, before any work is done for it."""
    if path.suffix not in (".html", ".htm"):
        raise SolidError(f"cannot write {path}: end the name in .html")


def export(exhibition: Exhibition, path: Path) -> int:
    """Write page and maps as one HTML file; returns how many members it holds of each."""
    values = sum(
        one.members * len(one.variables) * one.maps[f"{one.variables[0]}_mean"].size for one in exhibition.shown
    )
    share = min(1.0, LARGEST / max(2 * values, 1))
    fields: dict[str, Any] = {}
    files = []
    for number, one in enumerate(exhibition.shown):
        kept = evenly(np.arange(one.members), max(2, int(share * one.members))) if one.members else np.arange(0)
        files.append({**one.about, "members": len(kept)})
        fields |= {f"{number} {name}": packed(values) for name, values in _fields(one, kept)}
    replace(path, document({**exhibition.about, "imagine": False, "files": files}, fields).encode())
    return min(file["members"] for file in files)


def _fields(one: Shown, kept: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """What the page would ask the server for, whole: each (..., H, W)."""
    times = [(start, lead) for start in range(one.starts) for lead in range(one.leads)]

    def over_times(variable: str, layer: str) -> np.ndarray:  # (N, L, H, W)
        frames = np.stack([one.frame(variable, layer, *time) for time in times])
        return frames.reshape(one.starts, one.leads, *frames.shape[1:])

    for variable in one.variables:
        about = one.about["variables"][one.variables.index(variable)]
        stored = [] if len(kept) else [f"q:{q:g}" for q in about["quantiles"]]
        layers = [
            "mean",
            *(["std"] if about["spread"] else []),
            *stored,
            *(["read"] if "read" in one.about["has"] else []),
        ]
        for layer in layers:
            yield f"{variable} {layer}", over_times(variable, layer)
        for layer in (name for name in one.about["has"] if name != "read"):
            per_start = np.stack([one.frame(variable, layer, start, 0) for start in range(one.starts)])
            yield f"{variable} {layer}", per_start
        if len(kept):
            yield f"{variable} members", np.stack([over_times(variable, f"member:{k}") for k in kept])


def packed(values: np.ndarray) -> dict[str, Any]:
    """A field as 16-bit steps, compressed, in letters."""
    known = np.isfinite(values)
    low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0.0, 1.0)
    step = (high - low) / (NONE - 1) or 1.0
    codes = np.full(values.shape, NONE, "<u2")
    codes[known] = np.round((values[known].astype(np.float64) - low) / step)
    data = base64.b64encode(gzip.compress(codes.tobytes(), 6, mtime=0)).decode()
    return {"low": low, "step": step, "shape": list(values.shape), "data": data}


def document(about: dict[str, Any], fields: dict[str, Any]) -> str:
    """The page with all it needs inside; its policy allows these two blocks of style and code and nothing else."""
    page, style, script = (page_files()[name].decode() for name in ("index.html", "style.css", "main.js"))
    policy = (
        f"default-src 'none'; style-src {_fingerprint(style)}; script-src {_fingerprint(script)}; img-src blob: data:"
    )
    data = json.dumps({"about": about, "fields": fields}, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        '<link rel="stylesheet" href="style.css">': f"<style>{style}</style>",
        '<script type="module" src="main.js"></script>': "",
        "<title>": f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>',
        "</body>": f'<script type="application/json" id="embedded">{data}</script>\n'
        f'<script type="module">{script}</script>\n</body>',
    }
    for old, new in parts.items():
        page = page.replace(old, new, 1)
    return page


def _fingerprint(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
