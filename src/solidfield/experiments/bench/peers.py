"""`solid bench peers`: DeepSensor's ConvNP, BayesNF and GPBoost beside `solid`, on the same rows and CPU time.

A peer lives in an environment of its own (`make peers`) and is a script of the repository's folder `peers/`. Both
sides meet in files:

    given.csv      frame, y, x, value         all that may be known
    asked.csv      frame, y, x                where quantiles are wanted; what was read there never leaves this process
    task.json      transform, levels, seed, CPU seconds, how long a frame is
    quantiles.npy  (levels, asked), physical units; and answer.json: what was chosen, versions, CPU seconds

The budget is CPU time of training; answering is not counted in it, but told. One judge scores all: the CRPS of 99
quantiles, resampled by days (Germany: weeks), and `solid`'s paired difference to each; over all contests of a data set
that every model of its table has answered.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from ...engine import Progress
from ...errors import SolidError
from ...scores.estimate import Estimate, bootstrap
from ...scores.metrics import law_crps
from ..cell import Cell, Experiment, Place, Result
from ..text import Table
from ..trainer import alone, one_thread, trained_on_questions
from .contests import CONTESTS, Contest
from .laws import held, laws_at, levels

ROOT = Path(__file__).parents[4]  # of the repository
PEERS = ("deepsensor", "bayesnf", "gpboost")
MINUTES = {"kolkata": 3.0, "era5": 2.0, "germany": 1.0}  # of CPU time, a training


@dataclass(frozen=True)
class PeersCell(Cell):
    HOME = "peers"
    JUDGED = ()
    WORDS = ("contest", "model", "minutes", "seed")

    contest: str
    model: str  # "solid", or a peer
    minutes: float  # CPU time of training

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        contest = CONTESTS[self.contest](place.files(data_set(self.contest)))
        folder = place.work / f"{self.model}-{self.run}"
        if self.model == "solid":
            laws, told = solid_laws(contest, folder, self.minutes, self.seed, progress)
        else:
            laws, told = peer_laws(self.model, contest, folder, self.minutes, self.seed)
        return {"laws": {name: judged(contest, law) for name, law in laws.items()}, **told, **contest.about}


def solid_laws(
    contest: Contest, folder: Path, minutes: float, seed: int, progress: Progress | None
) -> tuple[dict[str, np.ndarray], Result]:  # (levels, n) each
    """The model of sets as `solid train` would choose it, and its prior, kriging in space and time."""
    begin = time.process_time()
    transforms = (contest.transform,)
    model, task, seconds = trained_on_questions(
        contest.record, contest.plan, folder, minutes, seed, progress, transforms
    )
    with one_thread():
        laws = laws_at(model, task.scaling, contest.record, contest.frame, contest.cell, contest.plan)
    return laws, {"training_seconds": seconds, "cpu_seconds": time.process_time() - begin}


def peer_laws(
    name: str, contest: Contest, folder: Path, minutes: float, seed: int
) -> tuple[dict[str, np.ndarray], Result]:
    """What the peer's script answers from its own environment."""
    python, script = ROOT / ".peers" / name / "bin" / "python", ROOT / "peers" / f"run_{name}.py"
    if not (python.is_file() and script.is_file()):
        raise SolidError(f"{name} is not installed in {ROOT / '.peers'}; run `make peers` in the repository")
    with alone(folder.with_name(f"{folder.name}.lock")):
        write_task(contest, folder, minutes, seed)
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        begin = _children_seconds()
        with open(folder / "words.txt", "w") as words:
            done = subprocess.run([python, script, folder], env=clean | one, stdout=words, stderr=words)
        spent = _children_seconds() - begin
        if done.returncode:
            last = (folder / "words.txt").read_text().strip().splitlines() or ["it said nothing"]
            raise SolidError(f"{name} failed: {last[-1]}; all it said is in {folder / 'words.txt'}")
        law, told = np.load(folder / "quantiles.npy"), json.loads((folder / "answer.json").read_text())
    if law.shape != (len(levels()), len(contest.frame)) or not np.isfinite(law).all():
        raise SolidError(f"{name} answered with {law.shape} values, or some that are not finite; see {folder}")
    return {name: np.sort(law, axis=0).astype(float)}, {**told, "cpu_seconds": spent}


def _children_seconds() -> float:
    found = os.times()
    return found.children_user + found.children_system


def write_task(contest: Contest, folder: Path, minutes: float, seed: int) -> None:
    """The files that a peer reads."""
    folder.mkdir(parents=True, exist_ok=True)
    record, grid = contest.record, contest.record.grid

    def table(frame: np.ndarray, cell: np.ndarray) -> pd.DataFrame:
        row, column = np.divmod(cell, grid.shape[1])
        return pd.DataFrame({"frame": frame, "y": grid.y[row], "x": grid.x[column]})

    table(record.frames, record.cells).assign(value=record.values).to_csv(folder / "given.csv", index=False)
    table(contest.frame, contest.cell).to_csv(folder / "asked.csv", index=False)
    about = {"transform": contest.transform, "levels": levels().tolist(), "cycle": contest.cycle}
    about |= {"seconds": 60 * minutes, "seed": seed, "step": record.step, "start": record.start}
    about |= {"degrees": grid.axes == ("lat", "lon"), "spacing": list(grid.spacing)}
    (folder / "task.json").write_text(json.dumps(about))


def judged(contest: Contest, law: np.ndarray) -> Result:  # (levels, n)
    """The scores of each kind of question, and sums by group for paired error bars."""
    found: Result = {}
    crps, error = law_crps(law, contest.truth), law.mean(0) - contest.truth
    inside, middle = held(law, contest.truth), np.median(law, axis=0)
    _, group = np.unique(contest.group, return_inverse=True)
    for kind in dict.fromkeys(contest.kind.tolist()):
        mine = contest.kind == kind
        found[kind] = {
            "readings": int(mine.sum()),
            "mae": np.abs(middle - contest.truth)[mine].mean(),
            "rmse": np.sqrt((error[mine] ** 2).mean()),
            "coverage": inside[mine].mean(),
            "crps_sums": np.bincount(group[mine], crps[mine], group.max() + 1),
            "counts": np.bincount(group[mine], minlength=group.max() + 1),
        }
    return found


def peers_cells(
    data_sets: Annotated[str, "Comma-separated: kolkata, era5, germany."] = "kolkata,era5,germany",
    models: Annotated[
        str, "Comma-separated: solid, and what `make peers` installs."
    ] = "solid,deepsensor,bayesnf,gpboost",
    times: Annotated[float, "Budgets, over 3, 2 and 1 CPU minutes a training on the three."] = 1.0,
    seed: Annotated[int, "Of the trainings."] = 0,
) -> list[Cell]:
    for what, words, known in (("data set", data_sets, MINUTES), ("model", models, ("solid", *PEERS))):
        for word in words.split(","):
            if word not in known:
                raise SolidError(f"no {what} '{word}' among the peers; choose of {', '.join(known)}")
    return [
        PeersCell(contest, model, times * MINUTES[name], seed=seed)
        for name in data_sets.split(",")
        for contest in CONTESTS
        if data_set(contest) == name
        for model in models.split(",")
    ]


def data_set(contest: str) -> str:
    return contest.split()[0]


def mean_crps(part: Mapping[str, Any], rival: Mapping[str, Any] | None = None) -> Estimate:
    """Mean CRPS, or what it is above the rival's, with the error bar of resampled groups."""
    sums = np.array(part["crps_sums"], float) - (0 if rival is None else np.array(rival["crps_sums"], float))
    return bootstrap(np.stack([sums, part["counts"]], 1), of=lambda means: means[..., 0] / means[..., 1])


@dataclass(frozen=True)
class Answers:
    """What one law is worth in all contests of a data set."""

    part: Result  # scores of one kind of question
    units: str
    training_seconds: float  # of a training, on average
    cpu_seconds: float


def contests(results: Sequence[Result]) -> dict[tuple[str, str], dict[str, Answers]]:
    """By data set, with the contests that all its laws have answered, and kind of question; best first."""
    answered: dict[str, dict[str, dict[str, Result]]] = {}  # data set, law, contest
    for result in results:
        contest = result["cell"]["contest"]
        for name in result["laws"]:
            answered.setdefault(data_set(contest), {}).setdefault(name, {})[contest] = result
    found: dict[tuple[str, str], dict[str, Answers]] = {}
    for name, laws in answered.items():
        shared = [contest for contest in CONTESTS if all(contest in of_law for of_law in laws.values())]
        every = sum(data_set(contest) == name for contest in CONTESTS)
        title = name if len(shared) == every else f"{name}, {len(shared)} of {every} contests"
        for law, of_law in laws.items():
            mine = [of_law[contest] for contest in shared]
            for kind in mine[0]["laws"][law] if mine else ():
                spent = (float(np.mean([r[word] for r in mine])) for word in ("training_seconds", "cpu_seconds"))
                answers = Answers(pooled([r["laws"][law][kind] for r in mine]), mine[0]["units"], *spent)
                found.setdefault((title, kind), {})[law] = answers
    return {key: dict(sorted(of.items(), key=lambda item: mean_crps(item[1].part).mean)) for key, of in found.items()}


def pooled(parts: Sequence[Result]) -> Result:
    """Scores over all readings of several contests; readings of one group hang together in all of them."""
    count = [part["readings"] for part in parts]
    means = {name: np.average([part[name] for part in parts], weights=count) for name in ("mae", "coverage")}
    rmse = np.average([part["rmse"] ** 2 for part in parts], weights=count) ** 0.5
    sums = {name: np.sum([part[name] for part in parts], axis=0) for name in ("crps_sums", "counts")}
    return {"readings": sum(count), "rmse": rmse, **means, **sums}


def tables(results: Sequence[Result]) -> list[Table]:
    made: list[Table] = []
    for (contest, kind), laws in contests(results).items():
        rows: list[tuple[str, ...]] = []
        for name, found in laws.items():
            part, versus = found.part, laws.get("solid")
            gap = "-" if name == "solid" or versus is None else _bar(mean_crps(versus.part, part), "+.3g")
            scores = (_bar(mean_crps(part)), f"{part['mae']:.3g}", f"{part['rmse']:.3g}", gap)
            spent = f"{found.training_seconds:.0f}", f"{found.cpu_seconds:.0f}"
            own = ("", "") if name == "kriging" else spent  # it is the prior of the same training
            rows.append((name, *scores, f"{100 * part['coverage']:.1f} %", *own))
        first = next(iter(laws.values()))
        title = f"{contest}, {kind}, {first.part['readings']:,} readings, {first.units}"
        header = (title, "CRPS", "MAE", "RMSE", "solid minus it", "90 % holds", "CPU s, training", "CPU s, all")
        made.append((header, rows))
    return made


def verdicts(results: Sequence[Result]) -> list[str]:
    """Who wins, and whether by more than the error bar."""
    said = []
    for (contest, kind), laws in contests(results).items():
        (best, first), *others = laws.items()
        if not others:
            continue
        second, found = others[0]
        gap = mean_crps(first.part, found.part)
        sure = "by more than the error bar" if gap.high < 0 else "within the error bar"
        said.append(f"{contest}, {kind}: {best} has the lowest CRPS, {sure} below {second} ({_bar(gap, '+.3g')}).")
    return said


def _bar(found: Estimate, form: str = ".3g") -> str:
    low_high = f" ({format(found.low, form)} to {format(found.high, form)})" if found.has_bar else ""
    return format(found.mean, form) + low_high


EXPERIMENT = Experiment(
    "peers",
    "DeepSensor's ConvNP, BayesNF and GPBoost beside solid; `make peers` installs them.",
    peers_cells,
    tables,
    verdicts,
    reads=True,
    work="bench/peers",
)
