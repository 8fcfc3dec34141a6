"""The gallery: a picture for every script, and a page and notebooks that say what the scripts say now."""

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
make = runpy.run_path(str(ROOT / "gallery" / "make.py"), run_name="make")
SCRIPTS = make["scripts"]()


def test_there_is_a_picture_for_every_script_and_no_other():
    assert len(SCRIPTS) >= 12
    pictures = {path.stem for path in (ROOT / "docs" / "images" / "gallery").glob("*.png")}
    assert pictures == {script.stem for script in SCRIPTS}


def test_the_page_is_written_from_the_scripts():
    assert (ROOT / "docs" / "gallery.md").read_text() == make["page"](), "run `python gallery/make.py --text`"


def test_notebooks_hold_the_code_of_their_scripts():
    assert len(make["NOTEBOOKS"]) >= 3
    for name in make["NOTEBOOKS"]:
        script, notebook = ROOT / "gallery" / f"{name}.py", ROOT / "gallery" / f"{name}.ipynb"
        assert notebook.read_text() == make["notebook"](script), "run `python gallery/make.py --text`"
        cells = json.loads(notebook.read_text())["cells"]
        code = [line for cell in cells if cell["cell_type"] == "code" for line in "".join(cell["source"]).splitlines()]
        own = [line for line in make["parts"](script)[2].splitlines() if not line.startswith(("# %%", "save("))]
        assert [line for line in code if line and line not in ("%matplotlib inline", "figure")] == [
            line for line in own if line
        ]
