"""What the pages name exists: verbs, options, public names, files; and the picture of the house is the house."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import typer

import solidfield
from solidfield import cli
from test_architecture import RANK

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "solidfield"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FILES = [
    str(path)
    for folder in ("src", "tests", "benchmarks", "docs", "gallery", "peers")
    for path in (ROOT / folder).rglob("*.*")
]
FILES += [str(path) for path in ROOT.glob("*.*")]


@cache
def command(*path: str) -> typer.core.TyperCommand | None:
    """A verb of the command line, or of `bench`; None where there is none."""
    if path[0] not in cli.VERBS:
        return None
    found = cli._command(path[0])
    for name in path[1:]:
        found = found.commands.get(name)
    return found


def options(*path: str) -> set[str]:
    found = command(*path)
    return {word for each in found.params for word in (*each.opts, *each.secondary_opts)} if found else set()


def commands_of(text: str) -> list[list[str]]:
    """Words of each `solid ...` line of the code blocks, continued lines joined, comments cut."""
    blocks = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    lines = blocks.replace("\\\n", " ").splitlines()
    return [line.split("#")[0].split()[1:] for line in lines if re.match("solid [a-z]", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_name_verbs_and_options_that_exist(page: Path):
    for words in commands_of(page.read_text()):
        path = words[:2] if words[0] == "bench" else words[:1]
        assert command(*path), f"no verb: solid {' '.join(words)}"
        unknown = {word.split("=")[0] for word in words if word.startswith("--")} - options(*path) - {"--help"}
        assert not unknown, f"solid {' '.join(words)}: {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_public_names_exist(page: Path):
    named = set(re.findall(r"\bsf\.(\w+)", page.read_text()))
    assert named <= set(solidfield.__all__), named - set(solidfield.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_exist(page: Path):
    named = set(re.findall(r"`([\w./-]+/[\w.-]*\.(?:py|md|toml)|[\w-]+\.py)`", page.read_text()))
    for name in named:
        assert any(path.endswith(f"/{name}") for path in FILES), name


def test_the_site_has_every_page_and_every_public_name():
    trees = re.findall(r"```{toctree}\n(.*?)```", (ROOT / "docs" / "index.md").read_text(), re.DOTALL)
    listed = {word for tree in trees for word in re.findall(r"^(?!:)(\S+)$", tree, re.MULTILINE)}
    assert listed == {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"} | {"self"}
    described = re.findall(r"^\.\. (?:auto|py:)\w+:: (\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert sorted(described) == solidfield.__all__


def test_the_picture_of_the_house_is_the_house():
    rooms = {path.name + "/" for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    files = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    table = re.findall(r"^\| (\d+) \| (.*?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    lines = {room: int(line) - 1 for line, named in table for room in re.findall(r"`(.*?)`", named)}
    assert set(lines) == rooms | files
    assert {room: RANK[_plain(room)] for room in lines if room != "presets/"} == {
        room: line for room, line in lines.items() if room != "presets/"
    }
    tree = (ROOT / "README.md").read_text().split("src/solidfield/\n")[1].split("\ntests/")[0]
    heads = " ".join(re.split(r" {2,}", line.strip())[0] for line in tree.splitlines())
    assert {_plain(word) for word in heads.split()} == {_plain(word) for word in rooms | files}


def _plain(room: str) -> str:
    return room.removesuffix(".py").rstrip("/")
