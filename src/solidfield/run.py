"""The front door to a trained run: `load(folder)` opens it; it reads new readings, draws maps of them and is judged.

`reconstruct`, `forecast` and `assimilate` take tables of readings or frames with NaN where nothing was read, make the
covariates of the run's recipe for them, and return maps (`prediction/maps.py`). `place` says where the next sensor
helps most (`placement/`), and `evaluate` judges the run by readings that were held out. The verbs of the command line
call these methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from .engine import Progress
from .errors import SolidError
from .grid import flags
from .models.solid_set import SolidSet
from .pairs.frames import Frames
from .pairs.store import PairStore, open_pairs
from .placement.place import place as place_sensors
from .prediction.card import run_card
from .prediction.context import FramesLike, Times, choose_rows, frames_for, query, read_new, stretch
from .prediction.ensemble import DRAWN, check_memory
from .prediction.predict import predict
from .prediction.sets import fill_record, set_maps
from .readings.intake import Say
from .training.record import RunRecord

if TYPE_CHECKING:
    from .report import Findings

# Options of drawing that a model of sets has a use for.
SET_OPTIONS = ("members", "seed", "quantiles", "keep_members", "max_memory", "engine", "progress", "as_read")


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
    place = place_sensors

    def reconstruct(
        self,
        frames: FramesLike,
        members: int = 100,
        seed: int = 0,
        at: Times | None = None,
        dynamic: xr.Dataset | None = None,
        say: Say | None = None,
        past_only: bool = False,
        **options: Any,
    ) -> xr.Dataset:
        """Draw maps at the time of the frames.

        Parameters
        ----------
        frames : table, xarray object or array
            What was read, see the class.
        members : int
            Of the ensemble. Default: 100.
        seed : int
            Same seed, same members. Default: 0.
        at : time, sequence of times or "last", optional
            Which frames; the others are looked back on. Default: all that hold readings.
        dynamic : Dataset, optional
            Changing covariates, for a run that was trained with some.
        say : callable, optional
            As for `read`.
        past_only : bool
            A run of `solid-set` also knows what came later, unless this is set; others never do. Default: False.
        **options
            Of drawing: quantiles, keep_members, max_memory (GiB), engine, progress; and `as_read`, of a run of
            `solid-set` with offsets: what a sensor would read, its offset included, instead of the field.

        Returns
        -------
        xarray.Dataset
            Maps on (member, init_time, lead_time, y, x) with mean, standard deviation, quantiles and masks.

        Raises
        ------
        SolidError
            If the run was not trained for lead 0, a frame holds no reading, or the frames lie on another grid.
        """
        return self._predict(frames, 0, 1, at, dynamic, say, past_only, members=members, seed=seed, **options)

    def forecast(
        self,
        frames: FramesLike,
        members: int = 100,
        steps: int = 1,
        seed: int = 0,
        at: Times | None = None,
        dynamic: xr.Dataset | None = None,
        say: Say | None = None,
        rollout: bool = False,
        **options: Any,
    ) -> xr.Dataset:
        """Draw maps 1 .. steps leads after each frame.

        A run of `solid-set`, or one that was trained with a window and these leads, has a direct law of each, and
        members are coherent in space and time. Others are rolled forward, every member on its own.

        Parameters
        ----------
        frames, members, seed, at, dynamic, say, **options
            As for `reconstruct`.
        steps : int
            Leads ahead. Default: 1.
        rollout : bool
            Roll forward, the paper's way, also where there are direct laws. Default: False.

        Returns
        -------
        xarray.Dataset
            Maps as of `reconstruct`, with `steps` entries along lead_time.

        Raises
        ------
        SolidError
            If the run was not trained for lead 1, a frame holds no reading, or the frames lie on another grid.
        """
        options |= {"members": members, "seed": seed, "rollout": rollout}
        return self._predict(frames, 1, steps, at, dynamic, say, True, **options)

    def fill(
        self,
        frames: FramesLike,
        members: int = 100,
        seed: int = 0,
        past_only: bool = False,
        keep_members: bool = False,
        say: Say | None = None,
    ) -> pd.DataFrame:
        """Fill every gap of the record of every cell that was ever read; needs a run of `solid-set`.

        Parameters
        ----------
        frames, members, seed, past_only, say
            As for `reconstruct`.
        keep_members : bool
            Also a column for each member; within a day of gaps members are coherent. Default: False.

        Returns
        -------
        pandas.DataFrame
            A row for each time, cell and variable: `value` is the reading where `filled` is False, else the median of
            the law, with its 90 % interval from `low` to `high`, in the units of the run.

        Raises
        ------
        SolidError
            If the run is of another model, or the frames lie on another grid.
        """
        self._only_sets("fill")
        given, _, _ = frames_for(self, frames, say)
        return fill_record(self, given, members, seed, past_only, keep_members)

    def _only_sets(self, verb: str) -> None:
        if not isinstance(self.model, SolidSet):
            raise SolidError(f"{self.model.name} cannot {verb}; train a run with model 'solid-set' for that")

    def _no_sensors(self, options: dict[str, Any]) -> None:
        if options.pop("as_read", False):
            self._only_sets("tell a sensor's reading from the field")

    def assimilate(
        self,
        frames: FramesLike,
        members: int = 100,
        steps: int = 0,
        seed: int = 0,
        since: Times | int | None = None,
        until: Times | None = None,
        dynamic: xr.Dataset | None = None,
        say: Say | None = None,
        **options: Any,
    ) -> xr.Dataset:
        """Draw one course through the frames: what is read replaces every member's value there.

        A run of `solid-set` has the law of each time given what was read up to it; others are rolled forward.

        Parameters
        ----------
        frames, members, seed, dynamic, say, **options
            As for `reconstruct`.
        steps : int
            Further leads beyond the last frame. Default: 0.
        since : time or int, optional
            Where to begin: a time, or a number of steps before the end. Default: the first frame.
        until : time or "last", optional
            Where to stop reading. Default: the last frame.

        Returns
        -------
        xarray.Dataset
            Maps as of `forecast` from the first frame on; `read` says where a sensor was read at each time.

        Raises
        ------
        SolidError
            If there is no frame after the first and no step beyond it, or the first holds no reading.
        """
        given, times, notes = frames_for(self, frames, say)
        first, last = stretch(given, since, until, self.zone)
        walk = round((given.seconds[last] - given.seconds[first]) / given.every) + steps
        if walk < 1:
            raise SolidError(
                "assimilation needs a frame after its first, or steps beyond it; give more frames or steps"
            )
        rows = choose_rows(given, times, given.times[[first]], self.zone)
        given = given.until(last)
        if isinstance(self.model, SolidSet):
            kept = self._drawing({"members": members, "seed": seed, **options}, dynamic)
            leads = list(range(1, walk + 1))
            maps = set_maps(self, given, rows, times, leads, until=last, notes=notes, **kept)
            return self._with_read(maps, self._read_on_the_way(given, first, walk))
        self._no_sensors(options)
        source, later = query(self, given, rows, 1, walk, dynamic, assimilate=True)
        drawing = {"members": members, "seed": seed, "notes": notes, **options}
        maps = predict(self, source, times[rows], steps=walk, later=later, **drawing)
        return self._with_read(maps, np.stack([one.mask[0].any(0).numpy() for one in later]))

    def _with_read(self, maps: xr.Dataset, read: np.ndarray) -> xr.Dataset:  # (L, H, W) bool
        about = flags("was a sensor read here at this time, whose reading every member holds?", "not_read", "read")
        return maps.assign(read=(("init_time", "lead_time", *self.grid.axes), read[None].astype(np.int8), about))

    def _read_on_the_way(self, given: Frames, first: int, walk: int) -> np.ndarray:  # (L, H, W) bool
        step = np.round((given.seconds - given.seconds[first]) / given.every).astype(np.int64)
        read = np.zeros((walk, *self.grid.shape), bool)
        on_the_way = (step >= 1) & (step <= walk)
        read[step[on_the_way] - 1] = np.isfinite(given.values[on_the_way]).any(1)
        return read

    def _drawing(self, options: dict[str, Any], dynamic: xr.Dataset | None) -> dict[str, Any]:
        """Those of the options of drawing that a model of sets has a use for."""
        if dynamic is not None:
            raise SolidError(f"a run of '{SolidSet.name}' takes no dynamic fields; leave them out")
        if options.get("rollout"):
            raise SolidError(f"a run of '{SolidSet.name}' has a law of every lead and rolls nothing; leave rollout out")
        return {name: value for name, value in options.items() if name in SET_OPTIONS}

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
            `results` is plain JSON: scores, provenance, and a verdict in words.

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

    def _predict(
        self,
        frames: FramesLike,
        lead: int,
        steps: int,
        at: Times | None,
        dynamic: xr.Dataset | None,
        say: Say | None,
        past_only: bool,
        **options: Any,
    ) -> xr.Dataset:
        given, times, notes = frames_for(self, frames, say)
        rows = choose_rows(given, times, at, self.zone)
        if isinstance(self.model, SolidSet):
            kept = self._drawing(options, dynamic)
            leads = [0] if lead == 0 else list(range(1, steps + 1))
            return set_maps(self, given, rows, times, leads, past_only=past_only, notes=notes, **kept)
        self._no_sensors(options)
        source, later = query(self, given, rows, lead, steps, dynamic)
        return predict(self, source, times[rows], steps=steps, later=later, notes=notes, **options)
