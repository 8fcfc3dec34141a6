"""What several test files need: a verb of the command line, numbers from a key, whether a picture shows anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.image import imread
from typer.testing import CliRunner

from solidfield import cli
from solidfield.keys import numpy_generator


def solid(*words: Any) -> str:
    """What a verb prints; a SolidError comes out as itself, so that a test can read its one line."""
    result = CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def standard_normal(*shape: int, key: str) -> np.ndarray:
    return numpy_generator(0, key, *shape).standard_normal(shape)


def shows_something(picture: Path) -> bool:
    """A PNG that can be read, with ink and colours on a ground that is mostly one colour."""
    pixels = np.round(255 * imread(picture)[..., :3]).astype(int).reshape(-1, 3)
    colours, count = np.unique(pixels, axis=0, return_counts=True)
    return len(colours) > 10 and 0.001 < 1 - count.max() / len(pixels) < 0.999
