"""`solid bench gaussian`: every scheme against the exact posterior of the Gaussian world.

A cell is a scheme at a lead: train on sparse pairs within the budget, draw ensembles of held-out scenes, and compare
with the closed form. A ratio of 1 is perfect everywhere; error bars resample scenes. The exact posterior's own
members are scored by the same code (the scheme `exact`), which shows what a finite ensemble and a finite number of
scenes can show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...engine import Progress
from ...fields import Source
from ...keys import evenly, numpy_generator
from ...pairs.store import PairStore
from ...scores.estimate import bootstrap
from ...scores.metrics import block_means, crps_map, energy_scores, roughness, select
from ...theory.distance import distances_to_sensor
from ...worlds import GaussianWorld, Posterior
from ..cell import Cell, Experiment, Place, Result
from ..schemes import account, members_of, scheme, train_scheme
from ..text import Table, named, with_error
from .exact import compare, inside_map, means, measured, normal_crps, ratio, spread_map
from .figures import gaussian_figure, scene_figure
from .gaussian_joint import SCHEMES as JOINT_SCHEMES
from .gaussian_joint import JointCell
from .gaussian_joint import tables as joint_tables
from .gaussian_window import WindowCell
from .gaussian_window import tables as window_tables

BLOCK = 4
DISTANCES = (0.5, 1.5, 2.5, 3.5, np.inf)  # bins of distance to the nearest sensor, in cells
EXACT = "exact"
SCHEMES, WINDOWED = "solid,solid-diffusion,solid-onepass,solid-paper,oracle", "solid,solid-set"
RATIOS = {
    "crps": "CRPS",
    "spread": "spread",
    "spread_correlation": "its map's correlation",
    "coverage": "90 % covers",
    "block_crps": "block CRPS",
    "block_spread": "block spread",
    "energy": "energy score",
    "roughness": "roughness",
}


@dataclass(frozen=True)
class GaussianCell(Cell):
    HOME = "gaussian"
    JUDGED = ("members",)  # the number of scenes decides how many trajectories are left to train on
    WORDS = ("scheme", "lead")

    scheme: str  # or `exact`
    lead: int
    minutes: float | None  # CPU time of one thread; None: nothing is trained
    trajectories: int
    scenes: int
    members: int

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        """Ratios to the exact posterior, and the first scene to look at."""
        home = place.work / f"{self.trajectories}-trajectories-seed{self.seed}"
        store, source, judge = held_out(home, self.lead, self.trajectories, self.scenes, self.seed)
        if self.minutes is None:
            draws = numpy_generator(self.seed, "exact members")
            ensemble = np.stack([p.sample(self.members, draws) for p in judge.exact], axis=1)
            return judge.compare(ensemble) | {"picture": judge.picture()}
        run = train_scheme(self.scheme, store, home / "runs" / self.run, self.minutes, self.seed, progress)
        ensemble = members_of(run, source, self.members, self.seed, scheme(self.scheme).dear)[:, :, 0]
        return judge.compare(ensemble) | account(run, source) | {"picture": judge.picture(ensemble[:, 0])}


def gaussian_cells(
    schemes: Annotated[str | None, "Comma-separated; see docs/heart.md."] = None,
    lead: Annotated[list[int], "0 and 1; repeatable."] = [0, 1],  # noqa: B006
    minutes: Annotated[float, "Training budget of each scheme, CPU time on one thread."] = 4.0,
    trajectories: Annotated[int, "Simulated; most of them train."] = 400,
    scenes: Annotated[int, "Held-out scenes to judge on."] = 64,
    members: Annotated[int, "Of each ensemble."] = 100,
    seed: Annotated[int, "Of the world, the weights and the members."] = 0,
    window: Annotated[int, "Frames that are known; from 2 on, both encoders at leads 0 to 8 and when filling."] = 1,
    variables: Annotated[int, "2: two variables that hang together, learned jointly and alone."] = 1,
) -> list[Cell]:
    if variables == 2:
        return [JointCell(name, minutes, members, seed=seed) for name in JOINT_SCHEMES]
    size = {"trajectories": trajectories, "scenes": scenes, "members": members, "seed": seed}
    names = (schemes or (SCHEMES if window == 1 else WINDOWED)).split(",")
    budgets: dict[str, float | None] = {EXACT: None} | dict.fromkeys(names, minutes)
    if window > 1:
        return [WindowCell(name, window, budget, **size) for name, budget in budgets.items()]
    return [GaussianCell(name, at, budget, **size) for at in lead for name, budget in budgets.items()]


@lru_cache(maxsize=2)
def held_out(
    home: Path, lead: int, trajectories: int, scenes: int, seed: int
) -> tuple[PairStore, Source, Judge]:  # pairs, readings of the held-out scenes, and what they are compared with
    """Simulated, measured and solved once, whoever comes first."""
    world, options = GaussianWorld(seed=seed), {"validation": 0.05, "test": scenes / trajectories, "oracle": True}
    truth, store = measured(world, home, trajectories, f"pairs-lead{lead}-{scenes}.zarr", leads=(lead,), **options)
    chosen = evenly(store.split("test"), scenes)
    source = store.batch(chosen).source
    given = source.mask[:, 0].numpy()
    rows, frames = store.columns["trajectory"][chosen], store.columns["frame_target"][chosen]
    fields = np.stack([truth.read([int(n)])[0, f, 0] for n, f in zip(rows, frames, strict=True)])
    readings = np.where(given, source.values[:, 0].numpy(), np.nan)
    exact = [world.posterior(r, lead=2 * lead) for r in readings]  # a pair steps over every second frame
    return store, source, Judge(exact, fields, given)


class Judge:
    """Scenes whose posterior is known: an ensemble of them is compared cell by cell and jointly."""

    def __init__(self, exact: Sequence[Posterior], truth: np.ndarray, given: np.ndarray):  # (N, H, W) both
        self.exact, self.truth, self.free = exact, truth, ~given
        self.mean = np.stack([p.mean for p in exact])
        self.std = np.stack([p.std for p in exact])
        self.distance = distances_to_sensor(given[:, None], periodic=(True, True))
        self.best = normal_crps(truth - self.mean, np.where(self.free, self.std, 1.0)) * self.free
        self.block_std = np.stack([_block_std(p) for p in exact])
        self.best_block = normal_crps(block_means(truth - self.mean, BLOCK), self.block_std)
        draws = numpy_generator(0, "energy of the exact posterior")
        many = np.stack([p.sample(200, draws) for p in exact], axis=1)
        self.best_energy = energy_scores(select(many.astype(np.float32), truth.astype(np.float32)))

    def picture(self, members: np.ndarray | None = None) -> dict[str, Any]:  # (K, H, W)
        """The first scene in hundredths: whole numbers take little room. Without members, what is exact of it."""
        fields = {"mean": self.mean[0], "spread": self.std[0], "truth": self.truth[0]}
        if members is not None:
            fields = {"mean": members.mean(0), "spread": members.std(0, ddof=1), "member": members[0]}
        whole = {name: np.rint(100 * values).astype(int) for name, values in fields.items()}
        return whole | {"sensors": np.flatnonzero(~self.free[0])}

    def compare(self, ensemble: np.ndarray) -> dict[str, Any]:  # (K, N, H, W)
        free, spread, inside = self.free, spread_map(ensemble), inside_map(ensemble, self.truth, self.free)
        blocks, truth_blocks = block_means(ensemble, BLOCK), block_means(self.truth, BLOCK)
        block_crps = crps_map(blocks, truth_blocks.astype(blocks.dtype))
        energy = energy_scores(select(ensemble.astype(np.float32), self.truth.astype(np.float32)))
        rough = np.array([roughness(ensemble[:, n], (True, True), std=1.0) for n in range(len(self.truth))])
        truth_rough = np.array([roughness(field, (True, True), std=1.0) for field in self.truth])
        at_sensors = [(ensemble[:, n].mean(0) - field)[~free[n]] for n, field in enumerate(self.truth)]
        bins = np.digitize(self.distance, DISTANCES)
        return compare(ensemble, self.truth, free, self.best, self.std) | {
            "spread_correlation": bootstrap(_correlations(spread, self.std, free))._asdict(),
            "block_crps": ratio(block_crps.mean((1, 2)), self.best_block.mean((1, 2))),
            "block_spread": ratio(spread_map(blocks).mean((1, 2)), self.block_std.mean((1, 2))),
            "energy": ratio(energy, self.best_energy),
            "roughness": ratio(rough, truth_rough),
            "error_at_sensors": float(np.sqrt(np.mean(np.concatenate(at_sensors) ** 2))),
            "by_distance": [
                {
                    "from": DISTANCES[b - 1],
                    "spread": ratio(means(spread, here), means(self.std, here)),
                    "coverage": bootstrap(means(inside, here))._asdict(),
                }
                for b in range(1, len(DISTANCES))
                if (here := free & (bins == b)).any()
            ],
        }  # fmt: skip


def _correlations(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray:  # (N, H, W) each -> (N,)
    return np.array([np.corrcoef(x[m], y[m])[0, 1] for x, y, m in zip(a, b, mask, strict=True)])


def _block_std(posterior: Posterior) -> np.ndarray:  # (H / b, W / b)
    """Exact standard deviation of block means: A C A' for the averaging A."""
    height, width = posterior.mean.shape
    average = block_means(np.eye(height * width).reshape(-1, height, width), BLOCK)  # (cells, H / b, W / b)
    flat = average.reshape(height * width, -1)
    variance = np.einsum("cb,cd,db->b", flat, posterior.covariance, flat, optimize=True)
    return np.sqrt(np.maximum(variance, 1e-12)).reshape(average.shape[1:])


def entries(results: Sequence[Result]) -> dict[str, dict[str, Result]]:  # title of a lead -> scheme -> result
    leads = dict.fromkeys(result["cell"]["lead"] for result in results)
    return {f"lead {lead}": {r["cell"]["scheme"]: r for r in results if r["cell"]["lead"] == lead} for lead in leads}


def tables(results: Sequence[Result]) -> list[Table]:
    """Ratios to the exact posterior of each lead; spread and coverage by distance to the nearest sensor."""
    windowed = [result for result in results if "window" in result["cell"]]
    if windowed:
        return window_tables(windowed)
    together = [result for result in results if "variables" in result["cell"]]
    if together:
        return joint_tables(together)
    made: list[Table] = []
    for title, found in entries(results).items():
        names = {scheme: named(scheme, bool(entry.get("leaks"))) for scheme, entry in found.items()}
        header = (title, *RATIOS.values(), "error at sensors", "100 members: GMACs", "seconds")
        rows = [
            (names[n], *(with_error(e[k]) for k in RATIOS), f"{e['error_at_sensors']:.3f}", *cost_of(e))
            for n, e in found.items()
        ]
        bins = [f"from {bin['from']:g} cells" for bin in next(iter(found.values()))["by_distance"]]
        far = [
            (names[n], *(f"{b['spread']['mean']:.2f}, {b['coverage']['mean']:.3f}" for b in e["by_distance"]))
            for n, e in found.items()
        ]
        made += [(header, rows), ((f"{title}: spread, coverage", *bins), far)]
    return made


def cost_of(entry: Result) -> tuple[str, str]:
    cost = entry.get("cost_of_100_members")
    return ("-", "-") if cost is None else (f"{cost['gmacs']:.3g}", f"{cost['seconds']:.3g}")


EXPERIMENT = Experiment(
    "gaussian",
    "Every scheme against the exact posterior of the Gaussian world; 1 is perfect.",
    gaussian_cells,
    tables,
    figure=lambda results: gaussian_figure(entries(results)),
    scene=lambda results: scene_figure(next(iter(entries(results).values()))),
    work="bench/gaussian",
)
