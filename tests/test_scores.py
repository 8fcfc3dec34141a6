"""The table of all scores: plain JSON, equal to the single metrics, error bars by groups of fields."""

import json
from functools import partial

import numpy as np
import pytest

from shared import standard_normal
from solidfield.errors import SolidError
from solidfield.keys import numpy_generator
from solidfield.scores.calibration import coverage, rank_histogram, spread_skill
from solidfield.scores.estimate import bootstrap
from solidfield.scores.metrics import Cells, block_means, crps, energy_score, mae, mse, roughness
from solidfield.scores.nested import measure, regions, score, summarise

K, N, C, H, W = 30, 6, 2, 8, 8


drawn = partial(standard_normal, key="scores")


def masks() -> tuple[np.ndarray, np.ndarray]:
    place = numpy_generator(0, "masks").random((N, C, H, W))
    return place < 0.2, (place > 0.1) & (place < 0.4)  # overlapping


@pytest.fixture(scope="module")
def case():
    x, y = drawn(K, N, C, H, W), 1.5 * drawn(N, C, H, W, key="truth")
    m_i, m_o = masks()
    where = regions(m_i, m_o, dense=np.ones((H, W), dtype=bool))
    distance = np.abs(drawn(N, C, H, W, key="distance"))
    table = score(x, y, where, std=[1.5, 3.0], names=("u", "v"), distance=distance, periodic=(True, True))
    return x, y, where, table


def test_regions_of_simulated_truth_split_the_grid() -> None:
    m_i, m_o = masks()
    domain = np.ones((H, W), dtype=bool)
    domain[0] = False
    where = regions(m_i, m_o, dense=domain)
    assert np.array_equal(where["sensors"] | where["unobserved"], where["grid"])
    assert not (where["sensors"] & where["unobserved"]).any()
    assert not (where["targets"] & m_i).any()
    assert not where["grid"][:, :, 0].any()


def test_without_dense_truth_only_measured_cells_are_scored() -> None:
    m_i, m_o = masks()
    where = regions(m_i, m_o)
    assert set(where) == {"sensors", "targets"}
    assert np.array_equal(where["sensors"] | where["targets"], m_o)


def test_every_number_is_that_of_its_metric(case) -> None:
    x, y, where, table = case
    for c, (name, std) in enumerate([("u", 1.5), ("v", 3.0)]):
        members, truth = x[:, :, c], y[:, c]
        for region, mask in where.items():
            row = table["variables"][name]["regions"][region]
            here = mask[:, c]
            assert row["cells"] == here.sum()
            assert row["crps"]["mean"] == pytest.approx(crps(members, truth, here))
            assert row["crps_scaled"]["mean"] == pytest.approx(crps(members / std, truth / std, here))
            assert row["mse"]["mean"] == pytest.approx(mse(members, truth, here))
            assert row["mse_scaled"]["mean"] == pytest.approx(mse(members, truth, here) / std**2)
            assert row["mae"]["mean"] == pytest.approx(mae(members, truth, here))
            assert row["coverage"]["0.5"]["mean"] == pytest.approx(coverage(members, truth, 0.5, here))
            assert row["spread_skill"]["mean"] == pytest.approx(spread_skill(members, truth, here))
            assert row["rank_histogram"] == pytest.approx(list(rank_histogram(members, truth, here)))
            assert row["crps"]["low"] < row["crps"]["mean"] < row["crps"]["high"]
        structure = table["variables"][name]["structure"]
        blocks = block_means(members, 4), block_means(truth, 4)
        assert structure["block_crps"]["mean"] == pytest.approx(crps(*blocks))
        assert structure["block_spread_skill"]["mean"] == pytest.approx(spread_skill(*blocks))
        assert structure["energy_score_scaled"]["mean"] == pytest.approx(energy_score(members, truth) / std)
        assert structure["roughness"]["members"] == pytest.approx(roughness(members, (True, True), std))
        assert structure["roughness"]["truth"] == pytest.approx(roughness(truth, (True, True), std))
        assert sum(table["variables"][name]["by_distance"]["count"]) == truth.size


def test_the_table_is_strict_json(case) -> None:
    table = case[-1]
    assert json.loads(json.dumps(table, allow_nan=False)) == table


def test_a_point_forecast_has_no_spread_and_few_members_no_wide_interval(case) -> None:
    x, y, where, _ = case
    for members, levels in ((1, {"0.5": False, "0.9": False}), (10, {"0.5": True, "0.9": False})):
        table = score(x[:members], y, where, std=1.0, names=("u", "v"), distance=np.ones((H, W)))
        json.dumps(table, allow_nan=False)
        row = table["variables"]["u"]["regions"]["grid"]
        assert {level: value is not None for level, value in row["coverage"].items()} == levels
        for name in ("spread", "spread_skill", "correlation", "rank_histogram"):
            assert (row[name] is None) == (members == 1)
        assert table["variables"]["u"]["by_distance"]["coverage"] == [None]


def test_sparse_truth_is_scored_on_its_mask_alone(case) -> None:
    x, y, _, _ = case
    m_i, m_o = masks()
    where = regions(m_i, m_o)
    poisoned = score(x, np.where(m_o, y, np.nan), where, std=1.0, names=("u", "v"), distance=np.ones((H, W)))
    assert poisoned == score(x, y, where, std=1.0, names=("u", "v"), distance=np.ones((H, W)))
    assert poisoned["variables"]["u"]["structure"] is None


def test_an_empty_region_is_none(case) -> None:
    x, y, where, _ = case
    table = score(x, y, {**where, "sensors": np.zeros((H, W), dtype=bool)}, std=1.0, names=("u", "v"))
    assert table["variables"]["v"]["regions"]["sensors"] is None


def test_mistakes_are_named(case) -> None:
    x, y, where, _ = case
    with pytest.raises(SolidError, match="2 channels"):
        score(x, y, where, std=1.0, names=("u",))
    with pytest.raises(SolidError, match="must be positive"):
        score(x, y, where, std=0.0, names=("u", "v"))
    with pytest.raises(SolidError, match="region 'far'"):
        score(x, y, {"far": np.ones((3, 3))}, std=1.0, names=("u", "v"))


def test_bootstrap_of_equal_cases_has_no_width() -> None:
    estimate = bootstrap(np.full(17, 0.3))
    assert estimate == pytest.approx((0.3, 0.3, 0.3, 0.0), abs=1e-15)


def test_bootstrap_knows_the_standard_error_and_the_interval() -> None:
    values = drawn(400)
    estimate = bootstrap(values, draws=4000)
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.error == pytest.approx(values.std() / 20, rel=0.05)
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)
    assert bootstrap(values) == bootstrap(values)
    assert bootstrap(values) != bootstrap(values, seed=1)


def test_bootstrap_resamples_fields_not_pixels() -> None:
    """A hundred copies of a pixel are no more evidence than one: the error bar is that of the fields."""
    fields = drawn(40, 1, 1)
    row = score(
        np.zeros((1, 40, 1, 10, 10)),
        np.broadcast_to(fields[:, None], (40, 1, 10, 10)),
        {"grid": np.ones((10, 10))},
        1.0,
    )["variables"]["value"]["regions"]["grid"]
    assert row["crps"]["error"] == pytest.approx(np.abs(fields).std() / np.sqrt(40), rel=0.1)


def test_bootstrap_leaves_out_cases_without_cells_and_says_nothing_of_a_single_one() -> None:
    assert bootstrap(np.array([1.0, np.nan, 3.0])).mean == 2.0
    alone = bootstrap(np.array([1.0, np.nan]))
    assert alone.mean == 1.0
    assert np.isnan([alone.low, alone.high, alone.error]).all()
    with pytest.raises(SolidError, match="no case"):
        bootstrap(np.array([np.nan]))


def test_a_group_of_identical_scenes_is_one_piece_of_evidence() -> None:
    """Ten copies of a scene in one group have the interval of the scene alone, to the last bit of rounding."""
    values = drawn(12)
    copies = bootstrap(np.repeat(values, 10), groups=np.repeat(np.arange(12), 10))
    assert copies == pytest.approx(bootstrap(values))
    assert bootstrap(np.repeat(values, 10)).error < 0.5 * copies.error  # without groups they would pass for 120


def test_the_error_of_a_grouped_mean_is_that_of_the_means_of_its_groups() -> None:
    """Scenes g + e with a shock g per group of n: Var(mean) = (var g + var e / n) / G."""
    G, n = 300, 6
    shock, own = drawn(G, key="shock"), drawn(G, n, key="own")
    values = (2.0 * shock[:, None] + own).reshape(-1)
    estimate = bootstrap(values, groups=np.repeat(np.arange(G), n), draws=3000)
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.error == pytest.approx(np.sqrt((4.0 + 1.0 / n) / G), rel=0.12)
    shuffled = numpy_generator(0, "order").permutation(len(values))
    again = bootstrap(values[shuffled], groups=np.repeat(np.arange(G), n)[shuffled], draws=3000)
    assert again == pytest.approx(estimate)  # the order of the cases does not matter


def test_groups_of_unequal_size_count_by_their_cases() -> None:
    values, groups = np.array([1.0, 1.0, 1.0, 5.0]), np.array(["a", "a", "a", "b"])
    estimate = bootstrap(values, groups=groups, draws=4000)
    assert estimate.mean == 2.0
    assert (estimate.low, estimate.high) == (1.0, 5.0)  # all of one group, or all of the other
    alone = bootstrap(values, groups=np.zeros(4))
    assert alone.mean == 2.0
    assert np.isnan([alone.low, alone.high, alone.error]).all()
    with pytest.raises(SolidError, match="3 group labels"):
        bootstrap(values, groups=np.zeros(3))


def test_the_table_takes_groups(case) -> None:
    """Fields in one group have no error bar; the means stay as they are."""
    x, y, where, table = case
    together = score(x, y, where, std=[1.5, 3.0], names=("u", "v"), groups=np.zeros(N))
    one, other = (t["variables"]["u"]["regions"]["grid"] for t in (together, table))
    assert one["crps"]["mean"] == other["crps"]["mean"]
    assert one["crps"]["error"] is None
    assert together["variables"]["u"]["structure"]["block_crps"]["low"] is None


def test_scores_of_selected_cells_are_those_of_the_cells_alone() -> None:
    """What is measured once and then selected equals what is measured on the selection."""
    members, truth = drawn(25, 40), drawn(40, key="truth")
    here = drawn(40, key="here") > 0
    groups = np.arange(40) // 4
    whole = measure(Cells(members, truth, np.arange(40), 40))
    some = Cells(members[:, here], truth[here], np.arange(int(here.sum())), int(here.sum()))
    selected = summarise(whole[here], 1.0, groups=groups)
    alone = summarise(measure(some), 1.0, groups=groups[here])
    for name in ("crps", "mae", "mse", "spread_skill"):
        assert selected[name] == pytest.approx(alone[name])
    assert selected["coverage"]["0.9"] == pytest.approx(alone["coverage"]["0.9"])
    assert list(selected["rank_histogram"]) == list(alone["rank_histogram"])
