"""Scores of predicted maps beside rivals: by held-out readings, and by the truth where it is simulated.

Rivals are fitted to the same training examples, draw as many members for the same scenes, and are judged by the same
function as everything else (`scoring.judge`); who wins is for the table to say.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from ..errors import SolidError
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..plot import fields
from ..prediction.maps import ahead
from ..scores.table import ScoreTable
from .ensembles import closed_forms, draw_targets
from .figures import reliability
from .scoring import judge
from .targets import Targets, Truth, reading_targets, truth_targets
from .words import REGIONS, labelled

RIVALS = ("kriging", "persistence", "climatology")


def evaluate(
    maps: xr.Dataset, store: PairStore, truth: Truth | None = None, rivals: Sequence[str] = RIVALS
) -> ScoreTable:
    """Score predicted maps and their rivals against what was held out.

    Parameters
    ----------
    maps : xarray.Dataset
        Members as `solid predict` or `predict_examples` gives them, predicted from examples of `store`.
    store : PairStore
        The pairs that the maps were predicted from; rivals are fitted to its training split.
    truth : Truth, optional
        A truth store of a simulation (`open_truth`). Without it, the held-out readings judge, and only at the lead of
        the examples.
    rivals : sequence of str, default kriging, persistence, climatology
        Closed-form models to compare with, at the lead of the examples; `()` for none.

    Returns
    -------
    ScoreTable
        A score for each model, lead (in steps ahead), region and variable, the maps' own model first; its `to_json` is
        what `scores.json` holds.

    Raises
    ------
    SolidError
        If the maps have no members or were not predicted from a pair store; if a rival has to be trained; if the truth
        lies on another grid or ends too early; if there are several leads and no truth.

    Examples
    --------
    >>> table = evaluate(open_maps("maps.nc"), open_pairs("pairs.zarr"))       # doctest: +SKIP
    >>> table.one(model="solid", lead=1, region="all")["crps"].mean            # doctest: +SKIP
    """
    if "example" not in maps.coords:
        raise SolidError("these maps were not predicted from a pair store, so there is nothing to score them with")
    missing = [name for name in store.variables if name not in maps]
    if missing:
        raise SolidError(f"the maps hold no members of '{missing[0]}'; predict with members to score them")
    std = Scaling.fit(store, store.split("train")).physical_std
    found = []
    for position in range(maps.sizes["lead_time"]):
        targets, ensemble = targets_of(maps, store, truth, position), members_of(maps, store, position)
        ensembles = {maps.attrs["model_label"]: targets.take(ensemble)[1]}
        if position == 0:
            for rival in closed_forms(rivals, store):
                drawn = draw_targets(rival, store, [targets], len(ensemble), int(maps.attrs["seed"]))
                ensembles[rival.name] = drawn.members[0]
        found.append(judge(targets, ensembles, store, std, rolled=position > 0))
    judged_by = "held-out readings" if truth is None else "the whole grid"
    return ScoreTable.join(found, {"judged_by": judged_by, "data_fingerprint": store.fingerprint})


def targets_of(maps: xr.Dataset, store: PairStore, truth: Truth | None, position: int = 0) -> Targets:
    """What judges the maps at a position along their leads."""
    examples = maps["example"].values
    if truth is not None:
        return truth_targets(store, examples, truth, round(ahead(maps, position) / store.step))
    if position > 0:
        raise SolidError("beyond the first lead only simulated truth can be scored; give --truth")
    return reading_targets(store, examples)


def members_of(maps: xr.Dataset, store: PairStore, position: int = 0) -> np.ndarray:  # (K, N, C, H, W)
    return np.stack([maps[name].values[:, :, position] for name in store.variables], axis=2)


def write_scores(
    table: ScoreTable, maps: xr.Dataset, store: PairStore, truth: Truth | None, out: Path
) -> list[Path]:  # of the figures
    """scores.json; of every variable a figure of one scene and one of calibration, at the first lead."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "scores.json").write_text(json.dumps(table.to_json(), indent=1, allow_nan=False))
    targets, ensemble = targets_of(maps, store, truth), members_of(maps, store)
    scene, made_by, ahead = ensemble.shape[1] // 2, maps.attrs["model_label"], table.leads[0].ahead
    source = store.batch(targets.examples[scene : scene + 1]).source
    written = []
    for c, (variable, units) in enumerate(table.variables.items()):
        tag = f"-{c + 1}" if len(table.variables) > 1 else ""
        known = np.full(store.grid.cells, np.nan)
        here = (targets.scene == scene) & (targets.channel == c)
        known[targets.cell[here]] = targets.values[here]
        figures = {
            "maps": fields.scene(
                ensemble[:, scene, c],
                np.where(source.mask[0, c].numpy(), source.values[0, c].numpy(), np.nan),
                known.reshape(store.grid.shape),
                store.grid,
                None,
                labelled(variable, units),
                f"{made_by}, {ahead}",
                "truth" if targets.dense else "read in fact (held out)",
            )
        }
        rows = targets.regions[targets.main] & (targets.channel == c)
        if len(ensemble) > 1 and rows.any():
            title, unit = f"{made_by}, {ahead}: {REGIONS[targets.main]}", table.about["distance_units"]
            figures["calibration"] = reliability(targets, targets.take(ensemble)[1], rows, units, unit, title)
        for name, figure in figures.items():
            written.append(out / f"{name}{tag}.png")
            figure.savefig(written[-1])
    return written
