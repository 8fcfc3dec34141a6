"""What `help()` shows of every public name: what it does, its parameters, what it returns, an example that runs.

The examples themselves run with the tests (`--doctest-modules`).
"""

from __future__ import annotations

import doctest
import inspect
import re
from typing import Any

import pytest

import solidfield

CONSTANTS = ["MODELS", "PAPER_SCENARIOS"]  # tables: what is in them stands in a comment above them
NOT_YET: list[str] = []  # this list only ever gets shorter
NAMES = [
    pytest.param(name, marks=pytest.mark.xfail(strict=False) if name in NOT_YET else ())
    for name in solidfield.__all__
    if name not in CONSTANTS
]


def parameters(value: Any) -> set[str]:
    """The names a caller may give, without `self` and what only passes on (`**options`)."""
    if inspect.isclass(value) and value.__init__ in (object.__init__, Exception.__init__):
        return set()
    kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return {name for name, each in inspect.signature(value).parameters.items() if each.kind not in kinds}


def described(text: str) -> set[str]:
    """The names under "Parameters" or "Attributes", those of a line such as `lat, lon : float` each."""
    sections = re.findall(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=\n\n\S+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^(\w[\w, *]*?)(?: : .*)?$", "\n".join(sections), re.MULTILINE)
    return {name.strip(" *") for head in heads for name in head.split(",")}


@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_a_caller_needs(name):
    value = getattr(solidfield, name)
    text = inspect.cleandoc(value.__doc__ or "")
    assert text.split("\n")[0].rstrip().endswith((".", "?", ":")), "the first line is not a sentence"
    assert parameters(value) <= described(text), f"not described: {parameters(value) - described(text)}"
    returns = inspect.isclass(value) or re.search(r"^Returns\n-+$", text, re.MULTILINE)
    assert returns, "nothing is said of what comes back"
    assert doctest.DocTestParser().get_examples(text), "there is no example"
