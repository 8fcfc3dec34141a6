"""BayesNF: an ensemble of Bayesian neural fields of (time, y, x), fitted to the given readings.

Followed: the API pages and docstrings of bayesnf 0.1.3 (`BayesianNeuralFieldMAP`). As there: MAP ensembles, two hidden
layers, Gaussian noise, learning rate 0.005, standardised coordinates, all interactions of two coordinates, a season of
a day with harmonics where frames are hours, quantiles of the mixture of the ensemble.

Chosen here, for a budget of CPU minutes (a step of the defaults, 16 members of width 512 with full batches, multiplies
1e12 times on 90,000 rows): 4 members of width 128, batches of 512. The Fourier features of time go down to periods of
about four frames, since a field that is told no faster ones cannot follow what happens within a day; five degrees in
space, as by default. The number of epochs must be said before: two short fits to a few rows tell how long a step and a
compilation take. They are not counted in the budget, the compilation of the long fit is.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import time

import bayesnf
import jax
import numpy as np
import pandas as pd
from exchange import Task
from scipy.special import ndtr

MEMBERS, WIDTH, BATCH, SPACE = 4, 128, 512, 5
FEW, SHORT, LONG = 8, 1, 13  # batches and epochs of the short fits


def as_table(task: Task, table: pd.DataFrame) -> pd.DataFrame:
    hours = pd.Timestamp("2020-01-01") + pd.to_timedelta(table["frame"] * task.about["step"], unit="s")
    return table.assign(time=hours).drop(columns="frame")


def field(task: Task) -> bayesnf.BayesianNeuralFieldMAP:
    daily = task.about["cycle"] is None
    frames = task.given["frame"].max() + 1
    return bayesnf.BayesianNeuralFieldMAP(
        feature_cols=["time", "y", "x"],
        target_col="value",
        timetype="index",
        freq="D" if daily else "h",
        seasonality_periods=[7.0] if daily else [24.0],
        num_seasonal_harmonics=[2] if daily else [4],
        fourier_degrees=[int(np.ceil(np.log2(frames / 4))), SPACE, SPACE],
        interactions=[(0, 1), (0, 2), (1, 2)],
        standardize=["y", "x"],
        width=WIDTH,
        depth=2,
        observation_model="NORMAL",
    )


def mixture_quantiles(means: np.ndarray, stds: np.ndarray, levels: np.ndarray) -> np.ndarray:  # (E, n) -> (L, n)
    """By bisection, of equal Gaussian parts."""
    low = np.broadcast_to((means - 6 * stds).min(0), (len(levels), means.shape[1])).copy()
    high = np.broadcast_to((means + 6 * stds).max(0), low.shape).copy()
    for _ in range(40):
        middle = (low + high) / 2
        below = np.mean([ndtr((middle - m) / s) for m, s in zip(means, stds, strict=True)], axis=0) < levels[:, None]
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return middle


def main() -> None:
    task = Task.read()
    given, asked = as_table(task, task.given), as_table(task, task.asked)
    seed = jax.random.PRNGKey(task.about["seed"])
    steps = len(given) // BATCH

    def fit(table: pd.DataFrame, epochs: int) -> tuple[bayesnf.BayesianNeuralFieldMAP, float]:
        begin, model = time.process_time(), field(task)
        model.fit(table, seed, ensemble_size=MEMBERS, num_epochs=epochs, batch_size=BATCH)
        return model, time.process_time() - begin

    few = given.sample(FEW * BATCH, replace=True, random_state=0)
    compiled, more = [fit(few, epochs)[1] for epochs in (SHORT, SHORT, LONG)][1:]  # the first one also warms up
    step = max(more - compiled, 1e-3) / (FEW * (LONG - SHORT))
    epochs = max(1, int((task.about["seconds"] - compiled) / step / steps))
    print(f"compiled in {compiled:.1f} s, {step:.4f} s a step, {steps} steps an epoch, {epochs} epochs", flush=True)
    model, training = fit(given, epochs)
    print(f"losses {np.asarray(model.losses_).reshape(-1)[-3:]}", flush=True)
    laws = model.likelihood_model(asked)
    means = np.asarray(laws.mean(), float).reshape(MEMBERS, -1)
    stds = np.broadcast_to(np.asarray(laws.stddev(), float).reshape(MEMBERS, -1), means.shape)
    quantiles = mixture_quantiles(means, stds, np.array(task.about["levels"]))
    chosen = {"members": MEMBERS, "width": WIDTH, "batch": BATCH, "epochs": epochs}
    task.answer(quantiles, training, "bayesnf", chosen)


main()
