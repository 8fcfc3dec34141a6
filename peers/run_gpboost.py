"""GPBoost: boosted trees for the mean, a Gaussian process in space and time for what is left.

Followed: the docstrings of gpboost 1.8.0 (`GPModel`, `train`). As there: the Vecchia approximation with
its default of 20 neighbours, covariance "matern_space_time" (a range in time, a range in space) estimated by
likelihood with L-BFGS, trees of depth 3, learning rate 0.1, the number of trees by early stopping on held-out rows that
the Gaussian process predicts, too.

Chosen here, for a budget of CPU minutes: covariance and trees are learned from 40 rows a second of budget, in eight
runs of rows spread evenly over the record, 10 % of them held out to stop by; the smoothness, 0.5 or 1.5, is the one of
higher likelihood. Trees know place, time and time of day. All given rows are then known when asked: residuals are
predicted in pieces of the record with what was read around each, since the search for neighbours grows with the square
of the rows.
"""

import time

import gpboost as gpb
import numpy as np
from exchange import Task

ROWS, RUNS, HELD, PIECE = 40, 8, 0.1, 4000  # see above; rows of a piece
SMOOTHNESS, USED = (0.5, 1.5), 0.9  # share of the budget after which no tree is added


def runs_of_frames(frame: np.ndarray, count: int) -> np.ndarray:
    """Eight runs of rows that follow each other in time, so many in all."""
    each = min(count, len(frame)) // RUNS
    starts = np.linspace(0, len(frame) - each, RUNS).astype(int)
    return np.unique(np.concatenate([np.arange(start, start + each) for start in starts]))


def process(at: np.ndarray, smoothness: float, seed: int) -> gpb.GPModel:
    return gpb.GPModel(
        gp_coords=at,
        cov_function="matern_space_time",
        cov_fct_shape=smoothness,
        gp_approx="vecchia",
        likelihood="gaussian",
        seed=seed,
        num_parallel_threads=1,
    )


def main() -> None:
    task = Task.read()
    seed, given, asked = task.about["seed"], task.given.sort_values("frame"), task.asked
    at, wanted = (table[["frame", "y", "x"]].to_numpy(float) for table in (given, asked))
    told, wanted_told = (np.column_stack([part, task.cycle(part[:, 0])]) for part in (at, wanted))
    y = given["value"].to_numpy()
    chosen = runs_of_frames(at[:, 0], int(ROWS * task.about["seconds"]))
    held = chosen[np.random.default_rng(seed).random(len(chosen)) < HELD]
    taught = np.setdiff1d(chosen, held)

    fits = {}
    for smoothness in SMOOTHNESS:
        model = process(at[taught], smoothness, seed)
        model.fit(y=y[taught], params={"maxit": 30})
        fits[smoothness] = model.get_current_neg_log_likelihood()
        print(f"smoothness {smoothness}: {fits[smoothness]:.1f}, {task.left():.0f} s left", flush=True)
    best = min(fits, key=fits.get)
    model, reserve = process(at[taught], best, seed), (1 - USED) * task.about["seconds"]
    model.set_prediction_data(gp_coords_pred=at[held])

    def in_time(env) -> None:
        if task.left() < reserve:
            raise gpb.callback.EarlyStopException(env.iteration, [])

    rows = gpb.Dataset(told[taught], y[taught])
    options = {"learning_rate": 0.1, "max_depth": 3, "verbose": 0, "num_threads": 1, "seed": seed}
    trees = gpb.train(
        options,
        rows,
        gp_model=model,
        num_boost_round=200,
        valid_sets=rows.create_valid(told[held], y[held]),
        use_gp_model_for_validation=True,
        early_stopping_rounds=10,
        callbacks=[in_time],
        verbose_eval=False,
    )
    count = trees.best_iteration if trees.best_iteration > 0 else trees.current_iteration()
    covariance = np.asarray(model.get_cov_pars(format_pandas=False)).ravel()[:4]
    training = time.process_time() - task.begun
    print(f"{count} trees, covariance {covariance}, {task.left():.0f} s left", flush=True)

    def mean_of(part: np.ndarray) -> np.ndarray:
        return trees.predict(part, num_iteration=count, ignore_gp_model=True)

    residual, mean, variance = y - mean_of(told), mean_of(wanted_told), np.ones(len(wanted))
    order = np.argsort(wanted[:, 0], kind="stable")
    reach = max(1, len(y) * 4 // max(1, len(np.unique(at[:, 0]))))  # about four frames of rows on either side
    for part in np.array_split(order, max(1, len(y) // PIECE)):
        first, last = np.searchsorted(at[:, 0], [wanted[part, 0].min(), wanted[part, 0].max() + 1])
        near = slice(max(0, first - reach), last + reach)
        found = process(at[near], best, seed).predict(
            y=residual[near], cov_pars=covariance, gp_coords_pred=wanted[part], predict_var=True
        )
        mean[part] += found["mu"]
        variance[part] = found["var"]
    about = {"rows": len(taught), "smoothness": best, "trees": count, "covariance": covariance.tolist()}
    task.answer(task.normal(mean, np.sqrt(variance)), training, "gpboost", about)


main()
