"""`solid bench gaussian`: every scheme against the exact posterior of the Gaussian world.

For each lead and scheme: train on sparse pairs within the budget, draw ensembles of held-out scenes, and compare
with the closed form. A ratio of 1 is perfect everywhere; error bars resample scenes. The exact posterior's own
members are scored by the same code (`exact`), which shows what a finite ensemble and a finite number of scenes can
show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from ...keys import evenly, numpy_generator
from ...pairs.store import open_pairs
from ...scores.calibration import covered, ranks
from ...scores.estimate import bootstrap
from ...scores.metrics import block_means, crps_map, energy_scores, roughness, select, spectrum
from ...theory.distance import distances_to_sensor
from ...training.loop import Progress
from ...worlds import GaussianWorld, Posterior, write_truth
from ...worlds.observe import observe
from ...worlds.scenarios import Scenario
from .figures import scene_figure
from .schemes import account, members_of, scheme, trained

BLOCK = 4
DISTANCES = (0.5, 1.5, 2.5, 3.5, np.inf)  # bins of distance to the nearest sensor, in cells


def run_gaussian(
    out: Path,
    schemes: Sequence[str],
    leads: Sequence[int] = (0, 1),
    minutes: float = 2.0,
    trajectories: int = 300,
    scenes: int = 64,
    members: int = 100,
    seed: int = 0,
    figure: Path | None = None,  # a scene of the first lead beside its exact posterior
    report: Callable[[str, Progress], None] | None = None,
) -> dict[str, Any]:
    """Results by lead and scheme; runs that are in `out` already are used again."""
    world = GaussianWorld(seed=seed)
    truth = write_truth(world, out / "truth.zarr", trajectories)
    results: dict[str, Any] = {}
    for lead in leads:
        path = out / f"pairs-lead{lead}.zarr"
        sensors = Scenario("random", 0.1, "instance")
        if not path.exists():
            observe(truth, path, sensors, leads=(lead,), validation=0.05, test=scenes / trajectories, oracle=True)
        store = open_pairs(path)
        test = store.split("test")
        chosen = evenly(test, scenes)
        source = store.batch(chosen).source
        given = source.mask[:, 0].numpy()
        rows, frames = store.columns["trajectory"][chosen], store.columns["frame_target"][chosen]
        fields = np.stack([truth.read([int(n)])[0, f, 0] for n, f in zip(rows, frames, strict=True)])
        readings = np.where(given, source.values[:, 0].numpy(), np.nan)
        exact = [world.posterior(r, lead=2 * lead) for r in readings]  # a pair steps over every second frame
        judge = Judge(exact, fields, given)
        draws = numpy_generator(seed, "exact members")
        at_lead = {"exact": judge.compare(np.stack([p.sample(members, draws) for p in exact], axis=1))}
        scene: dict[str, np.ndarray] = {}
        for name in schemes:
            note = None if report is None else partial(report, f"{name}, lead {lead}")
            run = trained(scheme(name), store, out / f"{name}-lead{lead}", minutes, seed, note)
            ensemble = members_of(run, source, members, seed, scheme(name).dear)[:, :, 0]
            entry = judge.compare(ensemble)
            entry |= account(run, source)
            scene[f"{name} (leaks)" if run.leaks else name] = ensemble[:, 0]
            at_lead[name] = entry
        results[f"lead {lead}"] = at_lead
        if figure is not None and lead == leads[0]:
            figure.parent.mkdir(parents=True, exist_ok=True)
            scene_figure(fields[0], given[0], (exact[0].mean, exact[0].std), scene).savefig(figure)
    return results


class Judge:
    """Scenes whose posterior is known: an ensemble of them is compared cell by cell and jointly."""

    def __init__(self, exact: Sequence[Posterior], truth: np.ndarray, given: np.ndarray):  # (N, H, W) both
        self.truth, self.free = truth, ~given
        self.mean = np.stack([p.mean for p in exact])
        self.std = np.stack([p.std for p in exact])
        self.distance = distances_to_sensor(given[:, None], periodic=(True, True))
        z = (truth - self.mean) / np.where(self.free, self.std, 1.0)
        self.best = self.std * (
            z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)
        )  # CRPS of N(mean, std)
        self.block_std = np.stack([_block_std(p) for p in exact])
        blocks = block_means(truth, BLOCK)
        zb = (blocks - block_means(self.mean, BLOCK)) / self.block_std
        self.best_block = self.block_std * (zb * (2 * norm.cdf(zb) - 1) + 2 * norm.pdf(zb) - 1 / np.sqrt(np.pi))
        draws = numpy_generator(0, "energy of the exact posterior")
        many = np.stack([p.sample(200, draws) for p in exact], axis=1)
        self.best_energy = energy_scores(select(many.astype(np.float32), truth.astype(np.float32)))

    def compare(self, ensemble: np.ndarray) -> dict[str, Any]:  # (K, N, H, W)
        K, free = len(ensemble), self.free
        spread = np.sqrt(ensemble.var(axis=0, ddof=1, dtype=np.float64))
        crps = crps_map(ensemble, self.truth.astype(ensemble.dtype))
        cells = select(ensemble, self.truth, free)
        inside = np.full(self.truth.shape, np.nan)
        inside[free] = covered(*ranks(cells), K, 0.9)
        blocks, truth_blocks = block_means(ensemble, BLOCK), block_means(self.truth, BLOCK)
        block_crps = crps_map(blocks, truth_blocks.astype(blocks.dtype))
        block_spread = np.sqrt(blocks.var(axis=0, ddof=1, dtype=np.float64))
        energy = energy_scores(select(ensemble.astype(np.float32), self.truth.astype(np.float32)))
        rough = np.array([roughness(ensemble[:, n], (True, True), std=1.0) for n in range(len(self.truth))])
        truth_rough = np.array([roughness(field, (True, True), std=1.0) for field in self.truth])
        at_sensors = [(ensemble[:, n].mean(0) - field)[~free[n]] for n, field in enumerate(self.truth)]
        bins = np.digitize(self.distance, DISTANCES)
        return {
            "crps": ratio(_means(crps, free), _means(self.best, free)),
            "spread": ratio(_means(spread, free), _means(self.std, free)),
            "spread_correlation": bootstrap(_correlations(spread, self.std, free))._asdict(),
            "coverage": bootstrap(_means(inside, free))._asdict(),
            "block_crps": ratio(block_crps.mean((1, 2)), self.best_block.mean((1, 2))),
            "block_spread": ratio(block_spread.mean((1, 2)), self.block_std.mean((1, 2))),
            "energy": ratio(energy, self.best_energy),
            "roughness": ratio(rough, truth_rough),
            "spectrum": _bands(ensemble, self.truth),
            "error_at_sensors": float(np.sqrt(np.mean(np.concatenate(at_sensors) ** 2))),
            "by_distance": [
                {
                    "from": DISTANCES[b - 1],
                    "spread": ratio(_means(spread, here), _means(self.std, here)),
                    "coverage": bootstrap(_means(inside, here))._asdict(),
                }
                for b in range(1, len(DISTANCES))
                if (here := free & (bins == b)).any()
            ],
        }  # fmt: skip


def ratio(values: np.ndarray, best: np.ndarray) -> dict[str, float]:  # (N,), (N,)
    """Ratio of the means over scenes, with an error bar from resampling scenes; scenes without cells are left out."""
    return bootstrap(np.stack([values, best], axis=1), of=lambda means: means[..., 0] / means[..., 1])._asdict()


def _means(values: np.ndarray, mask: np.ndarray) -> np.ndarray:  # (N, H, W) twice -> (N,), NaN where the mask is empty
    count = mask.sum((1, 2))
    total = np.where(mask, values, 0.0).sum((1, 2))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _correlations(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray:  # (N, H, W) each -> (N,)
    return np.array([np.corrcoef(x[m], y[m])[0, 1] for x, y, m in zip(a, b, mask, strict=True)])


def _block_std(posterior: Posterior) -> np.ndarray:  # (H / b, W / b)
    """Exact standard deviation of block means: A C A' for the averaging A."""
    height, width = posterior.mean.shape
    average = block_means(np.eye(height * width).reshape(-1, height, width), BLOCK)  # (cells, H / b, W / b)
    flat = average.reshape(height * width, -1)
    variance = np.einsum("cb,cd,db->b", flat, posterior.covariance, flat, optimize=True)
    return np.sqrt(np.maximum(variance, 1e-12)).reshape(average.shape[1:])


def _bands(ensemble: np.ndarray, truth: np.ndarray) -> list[dict[str, float]]:
    """Power of the members over the truth's in four bands of wavenumber."""
    k, mine = spectrum(ensemble[:16])
    _, true = spectrum(truth)
    mine, true = (
        np.mean(mine, axis=tuple(range(np.ndim(mine) - 1))),
        np.mean(true, axis=tuple(range(np.ndim(true) - 1))),
    )
    edges = np.geomspace(max(k[1], 1e-9), k[-1] * 1.0001, 5)
    return [
        {"from": float(a), "to": float(b), "power": float(mine[here].sum() / true[here].sum())}
        for a, b in pairwise(edges)
        if (here := (k >= a) & (k < b)).any()
    ]
