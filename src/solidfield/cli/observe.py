"""solid observe: truth and masks meet once, and only readings leave."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..config import load_config
from ..errors import SolidError
from ..pairs.store import PairStore
from ..worlds import open_truth
from ..worlds.observe import observe as observe_truth
from . import show


def observe(
    truth: Annotated[Path, typer.Argument(help="A truth store (solid simulate).")],
    out: Annotated[Path, typer.Argument(help="The pair store to write; it holds no unobserved value.")],
    preset: show.PresetOption = "laptop",
    pattern: Annotated[
        Literal["random", "block"] | None, typer.Option(help="Scattered cells, or square blocks.")
    ] = None,
    amount: Annotated[float | None, typer.Option(help="A density (0.1) or a number of blocks (6).")] = None,
    regime: Annotated[
        Literal["global", "instance"] | None, typer.Option(help="One mask for all, or one per example.")
    ] = None,
    overlap: Annotated[float | None, typer.Option(help="Share of the cells that are source and target.")] = None,
    lead: Annotated[list[int] | None, typer.Option(help="0 reconstructs, 1 forecasts; repeatable.")] = None,
    leads: Annotated[str | None, typer.Option(help="Several at once: 0..8, or 0,1,4,8.")] = None,
    window: Annotated[int | None, typer.Option(help="Frames an example knows: its source, those before.")] = None,
    obs_std: Annotated[float, typer.Option(help="Error of a reading, in the units of the field.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Of the masks and of the reading errors.")] = None,
    oracle: Annotated[bool, typer.Option(help="Also store dense targets: leaking, for comparisons only.")] = False,
    settings: show.SetOption = [],  # noqa: B006
    json: show.JsonOption = False,
) -> None:
    """Measure the truth where a scenario has sensors, and write the readings as sparse pairs.

    Even frames make training, validation and test examples; odd frames of the test trajectories are kept apart.
    """
    named = show.override(
        {
            "scenario.pattern": pattern,
            "scenario.amount": amount,
            "scenario.regime": regime,
            "scenario.overlap": overlap,
            "scenario.leads": [*(lead or []), *parse_leads(leads)] or None,
            "scenario.window": window,
            "scenario.seed": seed,
        }
    )
    config = load_config(preset, (*settings, *named)).scenario
    with show.progress("observing", "", json) as update:
        store = observe_truth(
            open_truth(truth),
            out,
            config,
            leads=config.leads,
            validation=config.validation,
            test=config.test,
            seed=config.seed,
            obs_std=obs_std,
            oracle=oracle,
            progress=update,
            window=config.window,
        )
    if json:
        show.as_json({"out": str(out), "examples": len(store), "readings": store.readings(), "leaks": store.leaks})
    else:
        show.line("observing", describe(store, config.pattern, config.amount, config.regime))


def parse_leads(text: str | None) -> list[int]:
    """Whole numbers from a range or a list.

    >>> parse_leads("-1..2"), parse_leads("0,4"), parse_leads(None)
    ([-1, 0, 1, 2], [0, 4], [])
    """
    if not text:
        return []
    first, dots, last = text.partition("..")
    try:
        return list(range(int(first), int(last) + 1)) if dots else [int(part) for part in text.split(",")]
    except ValueError:
        raise SolidError(f"--leads {text}: write a range such as 0..8 or a list such as 0,1,4,8") from None


def describe(store: PairStore, pattern: str, amount: float, regime: str) -> str:
    density = f"{100 * amount:g} % random" if pattern == "random" else f"{amount:g} blocks"
    masks = "one mask per example" if regime == "instance" else "one mask for all"
    dense = "DENSE TARGETS STORED (oracle)" if store.leaks else "no dense value stored"
    return f"{density}, {masks}: {store.readings():,} readings, {dense}"
