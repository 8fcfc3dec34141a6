"""The files of the page: markup, style, and its modules joined to one script, which is one request instead of many.

The modules import from each other alone, and no two use one name at their top level; so leaving out the import lines
and writing them after one another, what is used before what uses it, keeps their meaning.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

ORDER = (  # what is used comes first
    *("format", "pens", "layers", "marks", "map", "data", "embedded", "chart", "state", "asking", "save", "stage"),
    *("page", "law", "imagine", "motion", "main"),
)


@cache
def page_files() -> dict[str, bytes]:
    """By name; what is not here cannot be asked for."""
    folder = files(__package__) / "page"
    modules = "\n".join((folder / f"{name}.js").read_text("utf-8") for name in ORDER)
    script = re.sub(r"^export (?=\w)", "", re.sub(r"^import .*\n", "", modules, flags=re.MULTILINE), flags=re.MULTILINE)
    plain = {name: (folder / name).read_bytes() for name in ("index.html", "style.css")}
    return {**plain, "main.js": script.encode()}
