"""The front door to a trained run: `load(folder)` opens it; it reads new readings, draws maps of them and is judged.

`reconstruct`, `forecast` and `assimilate` take tables of readings or frames with NaN where nothing was read, make the
covariates of the run's recipe for them, and return maps (`prediction/maps.py`). `place` says where the next sensor
helps most (`placement/`), and `evaluate` judges the run by readings that were held out. The verbs of the command line
call these methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .engine import Progress
from .errors import SolidError
from .models.solid_set import SolidSet
from .pairs.store import PairStore, open_pairs
from .placement.place import place as place_sensors
from .prediction import verbs
from .prediction.card import run_card
from .prediction.context import read_new
from .prediction.ensemble import DRAWN, check_memory
from .training.record import RunRecord

if TYPE_CHECKING:
    from .report import Findings


def load(folder: str | Path) -> Run:
    """Open a finished run folder.

    Parameters
    ----------
    folder : path
        What `fit` or `solid train` made.

    Returns
    -------
    Run
        The model with its weights, on the CPU, and all that is needed to use it.

    Raises
    ------
    SolidError
        If there is no run, it has not finished, or its files are damaged.

    Examples
    --------
    >>> load("nowhere")
    Traceback (most recent call last):
        ...
    solidfield.errors.SolidError: nowhere is not a run folder (run.json is missing); `solid train` makes one
    """
    return Run.open(folder)


class Run(RunRecord):
    """A trained run, ready to use: what its folder holds, and the verbs of prediction. Made by `load` and `fit`.

    Frames may be a table of readings (a path, several, or a DataFrame), which is read as the run's own were; an xarray
    object on (time, y, x) over the run's cells; or an array (time, y, x) or (time, variable, y, x) for a run without a
    clock. NaN means not observed. Times given as text are of the run's zone (`zone`) unless they name their own.

    Attributes
    ----------
    path : Path
        The folder.
    model : Forecaster
        In evaluation mode, on the CPU.
    scaling : Scaling
        From physical units to the model's and back.
    grid : Grid
        The cells of the maps.
    variables, units : tuple of str
        What is predicted, and in which units.
    never_supervised : Tensor
        (C, H, W) bool: no training target ever taught the model about this cell.
    leaks : bool
        Was it trained on dense truth?
    info : dict
        `run.json`: provenance, settings, history.
    recipe : Recipe or None
        Of the covariates.
    static : array or None
        (S, H, W) static covariates, where there is a recipe.

    Examples
    --------
    >>> import numpy as np, tempfile, xarray as xr
    >>> from solidfield import fit
    >>> times = np.datetime64("2024-01-01", "ns") + np.arange(60) * np.timedelta64(3600, "s")
    >>> values = np.random.default_rng(0).normal(20, 3, (60, 3, 3))
    >>> frames = xr.DataArray(values, {"time": times, "lat": [0.0, 0.1, 0.2], "lon": [0.0, 0.1, 0.2]}, name="pm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = fit(frames, folder + "/run", model="climatology", preset="smoke")
    >>> dict(run.forecast(frames, members=5, steps=3, at="last").sizes)["lead_time"]
    3
    """

    def __repr__(self) -> str:
        cells = " x ".join(map(str, self.grid.shape))
        return f"Run({str(self.path)!r}: {self.model.label()}, {', '.join(self.variables)} on {cells} cells)"

    _repr_html_ = run_card
    read = read_new
    reconstruct, forecast, fill, assimilate = verbs.reconstruct, verbs.forecast, verbs.fill, verbs.assimilate
    place = place_sensors

    def evaluate(
        self,
        pairs: str | Path | PairStore | None = None,
        *,
        out: str | Path | None = None,
        rivals: Sequence[str] | None = None,
        runs: Sequence[RunRecord] = (),
        members: int = 100,
        scenes: int | None = None,
        steps: int = 1,
        seed: int = 0,
        above: float | None = None,
        past_only: bool = False,
        command: str = "",
        progress: Progress | None = None,
    ) -> Findings:
        """Judge the run by readings that were held out, beside rivals; with `out`, write the report.

        Parameters
        ----------
        pairs : path or PairStore, optional
            Whose test examples to judge by. Default: the run's own, in its folder.
        out : path, optional
            New folder for scores.json, figures and report.html. Default: nothing is written.
        rivals : sequence of str, optional
            Closed-form models to compare with. Default: those of the report.
        runs : sequence of Run
            Trained runs to compare with.
        members : int
            Of each ensemble. Default: 100.
        scenes : int, optional
            Test examples of each lead, evenly spaced. Default: all.
        steps : int
            From 2 on the models are also rolled forward, and judged after every step; a run of `solid-set` has a law
            of every step. Default: 1.
        seed : int
            Same seed, same members. Default: 0.
        above : float, optional
            Threshold of the report's map of chances. Default: the readings' upper tenth.
        past_only : bool
            A run of `solid-set` is judged at the time of the readings without what came later. Default: False.
        command : str
            That makes the same report again, for its foot.
        progress : callable, optional
            Called with (what, done, total).

        Returns
        -------
        Findings
            `table` holds the scores and their provenance (`table.to_json()` is plain), `verdict` says it in words.

        Raises
        ------
        SolidError
            If the folder `out` holds something, or there are no pairs to judge by.
        """
        for name, number, least in (("members", members, 2), ("scenes", scenes, 1), ("steps", steps, 1)):
            if number is not None and number < least:
                raise SolidError(f"{name} is {number}; an evaluation needs at least {least}")
        check_memory(members, 1, (steps, len(self.variables), *self.grid.shape), DRAWN)
        from . import report  # with its figures, which prediction does without

        if out is not None:
            report.refuse_report(Path(out))
        if isinstance(self.model, SolidSet):
            for name, value in (("pairs", pairs), ("rivals", rivals), ("runs", runs)):
                if value:
                    raise SolidError(f"'{name}' does nothing for a run of '{SolidSet.name}'; leave it out")
            leads = range(steps + 1) if steps > 1 else None
            findings = report.evaluate_questions(
                self, members=members, scenes=scenes, leads=leads, seed=seed, past_only=past_only, progress=progress
            )
        else:
            findings = report.evaluate_run(
                self,
                open_pairs(pairs) if isinstance(pairs, str | Path) else pairs,
                rivals=report.RIVALS if rivals is None else tuple(rivals),
                runs=runs,
                members=members,
                scenes=scenes,
                steps=steps,
                seed=seed,
                progress=progress,
            )
        if out is not None:
            report.write_report(findings, out, command, above)
        return findings
