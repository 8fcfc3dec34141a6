"""Arrows run one way: a module imports only from the rooms that come before it on the data's way."""

import ast
from pathlib import Path

import pytest

import solidfield

ROOT = Path(solidfield.__file__).parent

# From the ground up. Rooms on one line are siblings and may not import one another, except inside a folder.
LAYERS = [
    ["errors", "keys"],
    ["grid", "config", "clock", "recalibrate"],
    ["fields", "noise", "masks", "schedule", "place", "holdout"],
    ["forecast", "scenarios", "ragged", "objective", "sample", "interpolate", "covariance", "readings"],
    ["channels", "intake"],
    ["worlds", "pairstore", "nn", "laws", "copula", "checkpoint", "likelihood"],
    ["pairs", "scaling", "metrics"],
    ["part", "calibration", "augment", "models", "covariates"],
    ["batches", "optimise", "scores", "ensemble", "run", "frames", "costs", "suspects", "hidden"],
    ["plot", "validation", "maps", "pace", "processes", "context", "datasets"],
    ["engine"],
    ["shares"],
    ["train", "predict", "evaluate", "ask", "quality"],
    ["fit", "plot_readings", "report"],
    ["bench"],
    ["studies"],
    ["cli"],
]
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}


def room_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_rooms(path: Path) -> set[str]:
    """The rooms of solidfield that a file imports from, wherever in the file it does so."""
    depth = len(path.relative_to(ROOT).parts) - 1
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        if node.level <= depth:
            continue  # within the folder
        names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
        rooms |= set(names)
    return rooms


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_from_rooms_below(path):
    room = room_of(path)
    assert room in RANK, f"{path.name} is a new room: give it a place in LAYERS"
    for other in imported_rooms(path):
        assert RANK[other] < RANK[room], f"{path.name} ({room}) imports {other}, which is not below it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_opens_with_its_purpose(path):
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path.name} has no opening docstring"


def test_only_observe_and_evaluate_open_the_truth():
    """The truth store is read where masks are applied and where results are judged, and by no other library room."""
    readers = {room_of(path) for path in FILES if "worlds" in imported_rooms(path)}
    assert readers <= {"evaluate", "bench", "studies", "cli"}, readers
