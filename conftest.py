"""Examples of docstrings run in an empty folder of their own, so that they may write files."""

import pytest


@pytest.fixture(autouse=True)
def empty_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
