"""What is scored together and what error bars resample: days of a record, trajectories of a simulation."""

import numpy as np
import pytest

from dated import EVERY, dated_store
from solidfield.clock import from_seconds
from solidfield.errors import SolidError
from solidfield.pairs.scaling import Scaling
from solidfield.pairs.store import PairStore
from solidfield.report.truth import Judge, fit_rival, groups_of, local_times, rival_ensemble


@pytest.fixture(scope="module")
def dated(tmp_path_factory) -> PairStore:
    return dated_store(tmp_path_factory.mktemp("dated") / "pairs")


def test_groups_of_a_record_are_the_local_days_of_its_targets(dated) -> None:
    test = dated.split("test")
    groups, times = groups_of(dated, test), local_times(dated, test)
    utc = from_seconds(dated.columns["time_target"][test])
    assert (times.to_numpy() - utc == np.timedelta64(330, "m")).all()
    days = times.to_numpy().astype("datetime64[D]")
    assert len(np.unique(groups)) == len(np.unique(days))
    for day in np.unique(days):
        assert len(np.unique(groups[days == day])) == 1
    assert (groups % 5 == 4).all()  # the very days that were held out
    per_day = np.bincount(groups)
    assert per_day.max() == 2 * 24 // EVERY  # two leads


def test_groups_of_a_simulation_are_its_trajectories(store) -> None:
    indices = np.arange(len(store))
    assert local_times(store, indices) is None
    assert np.array_equal(groups_of(store, indices), store.columns["trajectory"])


def test_a_judge_resamples_groups_and_divides_by_physical_spread(store) -> None:
    """Scenes of one trajectory are one piece of evidence: the error bar follows the number of trajectories."""
    test = store.split("test")
    judge = Judge(store, test, None)
    ensemble = np.zeros((1, len(test), 1, *store.grid.shape))
    row = judge.score(ensemble)["variables"]["u"]["regions"]["targets"]
    assert row["crps"]["mean"] / row["crps_scaled"]["mean"] == pytest.approx(judge.scaling.physical_std[0])
    judge.groups = np.zeros(len(test))
    assert judge.score(ensemble)["variables"]["u"]["regions"]["targets"]["crps"]["error"] is None


def test_a_rival_sees_training_examples_only(dated) -> None:
    """Test and validation readings may be anything: the fit and the draw are the same."""
    scaling = Scaling.fit(dated, dated.split("train"))
    first = fit_rival("climatology", dated, scaling).state_dict()
    values = dated._ragged["target"][2]
    kept = values.copy()
    try:
        for split in ("validation", "test"):
            for example in dated.split(split):
                offsets = dated._ragged["target"][0]
                values[offsets[example] : offsets[example + 1]] = 1e6
        second = fit_rival("climatology", dated, scaling).state_dict()
    finally:
        values[:] = kept
    assert all((first[name] == second[name]).all() for name in first)


def test_only_closed_forms_can_be_fitted_as_rivals(dated) -> None:
    scaling = Scaling.fit(dated, dated.split("train"))
    with pytest.raises(SolidError, match="has to be trained"):
        fit_rival("unet", dated, scaling)
    one = rival_ensemble("nearest", dated, scaling, dated.split("test")[:3], members=7, seed=0)
    assert one.shape == (1, 3, 1, *dated.grid.shape)  # members of a point forecast are alike: one says it all
