"""`make gallery`: run every script, draw its picture, and write what follows from the scripts: a page, three notebooks.

A script is a docstring (its title, then its text) and cells that begin with `# %%`; the page and the notebooks are made
of these and nothing else, so that they cannot drift. `--text` writes them without running anything.
"""

from __future__ import annotations

import ast
import json
import runpy
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "gallery.md"
NOTEBOOKS = ("02_map", "04_fan", "07_fill")
HEAD = """# Gallery

Short scripts, one idea and one picture each. `make gallery` runs them all, with data that they make themselves: most
look at a city whose truth is known (`gallery/world.py`), read by 28 stations, and share one run that the first of them
trains. Three are notebooks, too: {notebooks}. This page is written by `gallery/make.py` from the scripts.
"""


def scripts() -> list[Path]:
    return sorted(HERE.glob("[0-9]*.py"))


def parts(script: Path) -> tuple[str, str, str, int]:
    """Title, text, code and the line on which the code begins."""
    source = script.read_text()
    title, _, text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    head = ast.parse(source).body[0]
    assert isinstance(head, ast.Expr)
    assert head.end_lineno is not None
    begin = head.end_lineno + 1
    return title, text.strip(), "\n".join(source.splitlines()[begin:]), begin + 1


def page() -> str:
    """A section a script: its words, its picture, its code."""
    listed = ", ".join(f"`gallery/{name}.ipynb`" for name in NOTEBOOKS)
    sections = [HEAD.format(notebooks=listed)]
    for script in scripts():
        title, text, _, line = parts(script)
        include = f"```{{literalinclude}} ../gallery/{script.name}\n:language: python\n:lines: {line}-\n```"
        sections.append(f"## {title}\n{text}\n\n![{title}](images/gallery/{script.stem}.png)\n\n{include}\n")
    return "\n".join(sections)


def notebook(script: Path) -> str:
    """The words and cells of a script; its picture is shown instead of saved."""
    title, text, code, _ = parts(script)
    first, *rest = code.split("\n# %% ")
    cells = [_cell("markdown", f"# {title}\n\n{text}"), _cell("code", f"%matplotlib inline\n{first.strip()}")]
    for cell in rest:
        words, _, lines = cell.partition("\n")
        cells += [_cell("markdown", words), _cell("code", lines.replace("save(figure, __file__)", "figure").strip())]
    for number, each in enumerate(cells):
        each["id"] = f"cell-{number}"
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def _cell(kind: str, text: str) -> dict[str, object]:
    code = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True), **code}


def main() -> None:
    PAGE.write_text(page())
    for name in NOTEBOOKS:
        (HERE / f"{name}.ipynb").write_text(notebook(HERE / f"{name}.py"))
    if "--text" in sys.argv:
        return
    sys.path.insert(0, str(HERE))
    for script in scripts():
        begun = time.monotonic()
        print(f"{script.name} ...", flush=True)
        runpy.run_path(str(script), run_name="__main__")
        print(f"{script.name}: {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
