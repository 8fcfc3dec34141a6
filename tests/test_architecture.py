"""Arrows run one way: a module imports only from the rooms that come before it on the data's way."""

import ast
import importlib
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import solidfield

ROOT = Path(solidfield.__file__).parent

VOCABULARY = ["errors", "keys", "grid", "clock", "config", "fields", "noise", "engine", "disk", "forecast"]

FRONT_DOOR = ["run", "fit"]

# From the ground up. Rooms on one line are siblings and may not import one another; the words of the vocabulary may,
# and so may the leaves of the front door and the files of a folder, as long as no two need each other.
LAYERS = [
    VOCABULARY,
    ["readings", "nn", "scores", "theory", "questions"],
    ["pairs", "models"],
    ["worlds", "training"],
    ["prediction"],
    ["quality", "placement"],
    ["plot"],
    ["report", "view"],
    [*FRONT_DOOR, "experiments"],
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
        below = RANK[other] < RANK[room] or any({room, other} <= set(words) for words in (VOCABULARY, FRONT_DOOR))
        assert below, f"{path.name} ({room}) imports {other}, which is not below it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_opens_with_its_purpose(path):
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path.name} has no opening docstring"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path) -> set[str]:
    """The files of solidfield that a file imports, named as modules."""
    package = module_of(path).split(".") if path.name == "__init__.py" else module_of(path).split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            names = {".".join([*base, alias.name]) for alias in node.names}
            found |= names & MODULES or {".".join(base)} & MODULES
    return found - {module_of(path)}


MODULES = {module_of(path) for path in FILES}


def test_no_two_files_need_each_other():
    graph = {module_of(path): imported_modules(path) for path in FILES}
    assert sum(map(len, graph.values())) > len(graph)  # the graph is not empty by mistake
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


def test_the_top_level_holds_the_vocabulary_and_the_front_door_alone():
    modules = [path for path in FILES if path.parent == ROOT]
    assert len(modules) <= 12, sorted(path.name for path in modules)
    assert len(LAYERS) <= 10


def test_the_library_never_imports_its_experiments():
    assert {room_of(path) for path in FILES if "experiments" in imported_rooms(path)} <= {"experiments", "cli"}


def test_only_observe_and_judges_open_the_truth():
    """The truth store is read where masks are applied and where results are judged, and by no other library room."""
    readers = {room_of(path) for path in FILES if "worlds" in imported_rooms(path)}
    assert readers <= {"experiments", "cli"}, readers


def test_type_checkers_see_the_public_names_where_they_are():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert seen == solidfield._HOME
    assert sorted(seen) == solidfield.__all__


def test_a_file_never_hides_the_public_name_it_holds():
    for name, module in solidfield._HOME.items():
        importlib.import_module(f"solidfield.{module}")
        assert not isinstance(getattr(solidfield, name), ModuleType), name


def test_importing_the_library_loads_neither_torch_nor_pandas():
    code = "import sys, solidfield; print(*{'torch', 'pandas', 'numpy'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []
