"""solid models: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer

from ..forecast import Spec
from ..grid import Grid
from ..models import MODELS, build, model_class
from . import show


def models(
    size: Annotated[str, typer.Option(help="smoke, laptop or paper.")] = "paper",
    json: show.JsonOption = False,
) -> None:
    """List the models with family, parameters on a 64 x 64 grid, and reference."""
    spec = Spec(Grid.box(64, 64, 1.0))
    rows = []
    for name in MODELS:
        options = {"size": size if size in model_class(name).SIZES else "laptop"}
        rows.append(
            (
                name,
                model_class(name).family,
                build(name, spec, options).parameter_count(),
                model_class(name).reference,
            )
        )
    if json:
        show.as_json({name: {"family": f, "parameters": n, "reference": r} for name, f, n, r in rows})
        return
    show.table(("model", "family", "parameters", "reference"), [(n, f, f"{p:,}", r) for n, f, p, r in rows])
