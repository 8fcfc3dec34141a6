"""Runs of questions are judged fairly: nobody knows what judges, rules do what they say, the map has its verdict."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import solidfield as sf
from solidfield.grid import Grid
from solidfield.models.solid_set import SolidSet
from solidfield.models.stretch import AHEAD_KINDS, EDGES, KINDS, LEVELS, SLIMMEST, stretched, stretches
from solidfield.prediction.answer import Scene
from solidfield.prediction.laws import LATENTS, moments
from solidfield.questions.record import Record
from solidfield.report import questions, write_report
from solidfield.report.questions import Exam
from solidfield.report.rivals import rivals, scene_of
from solidfield.report.rules import Desk, climatology
from solidfield.report.trees import Trees
from solidfield.scores.metrics import crps_map
from test_sets import _hurried, readings

pytestmark = pytest.mark.usefixtures("calibrated_briefly")

GRID = Grid((1, 4))


def desk(values: np.ndarray, frame: int, cell: int, last: int) -> Desk:  # (T, 4)
    record = Record.of_frames(values.reshape(-1, 1, 1, 4), GRID, ("x",), np.full(len(values), 2))
    one = np.array([cell])
    return Desk.of(record, Scene(np.array([frame]), one, np.array([-frame]), np.array([last])), np.array([0]))


NAN = np.nan
TABLE = np.array([[1.0, 10.0, 100.0, NAN], [2.0, NAN, 103.0, NAN], [4.0, NAN, 109.0, NAN]])


def test_rules_are_what_they_say():
    # Asked for cell 1 at frame 2: its last reading is of frame 0, the others have moved by 3 and 9 since.
    found = desk(TABLE, 2, 1, 0)
    assert found.nearest() == pytest.approx([4.0])
    assert found.persistence() == pytest.approx([10.0])
    assert found.moved() == pytest.approx([10.0 + (3 + 9) / 2])
    assert found.neighbours() == pytest.approx([(4.0 + 109.0) / 2])  # both a cell away
    assert found.own_age() == pytest.approx([2])
    filling = desk(np.array([[NAN, 10.0, NAN, NAN], [1.0, NAN, NAN, NAN], [NAN, 40.0, NAN, NAN]]), 1, 1, 1)
    assert filling.linear() == pytest.approx([25.0])
    assert filling.latest() == pytest.approx([1.0, 10.0])


def test_rules_know_nothing_after_their_window():
    spoiled = TABLE.copy()
    spoiled[2] = 1e30
    for name in ("nearest", "persistence", "moved", "neighbours", "linear", "latest", "own_age"):
        ahead = [getattr(desk(table, 2, 1, -1), name)() for table in (TABLE, spoiled)]
        assert ahead[0] == pytest.approx(ahead[1])


def test_an_unread_place_has_the_nearest_sensor_by_every_rule():
    found = desk(TABLE, 2, 3, 0)
    assert found.nearest() == found.persistence() == found.moved() == pytest.approx([109.0])


def test_climatology_has_the_quantiles_of_its_hour():
    values = np.arange(48.0).reshape(48, 1, 1, 1)
    record = Record.of_frames(values, Grid((1, 1)), ("x",), np.zeros(48))
    usual = climatology(record, np.arange(48) % 24, 2)
    assert usual[0, 5] == pytest.approx(np.quantile([5.0, 29.0], [0.25, 0.75]))


def test_a_forest_draws_training_values_with_an_honest_spread_and_boosting_is_near_the_mean():
    rng = np.random.default_rng(0)

    def drawn(count):
        x = rng.random((count, 2)).astype(np.float32)
        return x, 10 * x[:, 0] + (0.2 + x[:, 1]) * rng.standard_normal(count)

    told, values = drawn(1500)
    trees = Trees.fit(told, values, np.arange(1500) // 5, seed=0)
    asked, truth = drawn(300)
    members = trees.members(asked, 40, rng)
    for name, few in trees.members(np.repeat(asked, 20, 0), 2, rng).items():
        scores = crps_map(few, np.repeat(truth, 20))
        assert scores.mean() == pytest.approx(crps_map(members[name], truth).mean(), rel=0.04)  # draws, however few
    assert np.isin(members["forest"], values).all()
    for name in ("forest", "boosting"):
        assert 0.83 < np.mean([sf.coverage(members[name], truth)]) < 0.96
    spread = members["forest"].std(0)
    assert spread[asked[:, 1] > 0.8].mean() > 1.5 * spread[asked[:, 1] < 0.2].mean()
    assert np.abs(members["boosting"].mean(0) - 10 * asked[:, 0]).mean() < 0.5


def test_a_feature_that_is_never_known_changes_nothing():
    """Where no target is ever at a sensor, trees are never told the place's own reading."""
    rng = np.random.default_rng(0)
    told, values, frame = rng.random((200, 3), np.float32), rng.random(200), np.arange(200) // 5
    unknown = np.column_stack([told, np.full(200, np.nan, np.float32)])
    found = [Trees.fit(x, values, frame, 0).members(x, 5, np.random.default_rng(1)) for x in (told, unknown)]
    for name in ("forest", "boosting"):
        np.testing.assert_array_equal(found[0][name], found[1][name])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> sf.Run:
    folder = tmp_path_factory.mktemp("judged") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("solidfield.models.solid_set.SolidSet.prepare", _hurried(SolidSet.prepare))
        options = {"transform": "sqrt", "holdout": {"sensors": 0.2}}
        return sf.fit(readings(), folder, model="solid-set", preset="smoke", **options)


@pytest.mark.parametrize("lead", [0, 2])
def test_no_reading_that_judges_is_known(run, lead):
    exam = Exam.of(run, seed=0, past_only=False)
    per = run.grid.cells
    for number, frame in enumerate(exam.frames(lead, None)[0]):
        known, judged, begin, regions = exam.scene(number, int(frame), lead)
        when = known.frames + begin
        cells = set(known.cells[when == frame] % per) if lead == 0 else set()
        assert not cells & set(exam.record.cells[judged] % per)
        never = np.logical_or.reduce([exam.aside, *exam.held.values()]).ravel()
        assert not never[known.cells % per].any()
        out = exam.record.cells[judged][regions["left_out"]] % per
        assert not np.isin(known.cells % per, out).any()


def test_the_report_of_a_run_of_questions_says_who_wins_where(run, tmp_path, monkeypatch):
    monkeypatch.setattr("solidfield.report.rivals.LESSONS", 24)
    monkeypatch.setattr("solidfield.report.trees.LEAVES", (3,))
    monkeypatch.setattr("solidfield.report.trees.TREES", 20)
    findings = run.evaluate(members=20, scenes=6)
    table = findings.table
    assert [table.leads[0].lead, table.leads[-1].lead, len(table.leads)] == [0, 6, 4]
    names = table.models(0)
    assert names[:2] == ["solid-set", "kriging"]
    own = table.one(model="solid-set", lead=0, region="all")
    brute = findings.evidence[0]
    error = np.abs(np.median(brute.members["solid-set"], 0) - brute.targets.values).mean()
    assert own["mae"].mean == pytest.approx(error, rel=1e-5)
    assert findings.verdict.map.startswith("The map between the sensors")
    write_report(replace(findings, evidence=findings.evidence[-1:]), tmp_path / "report")  # figures of a lead
    page = (tmp_path / "report" / "report.html").read_text()
    share = 100 * float(run.model.departure[0, KINDS.index("unread")])
    assert f"now {share:.0f} %, ahead" in page


def test_members_of_rivals_are_draws_whose_fair_crps_hangs_on_their_number_by_chance_alone(run):
    """Evenly spaced quantiles instead of draws would have a fair CRPS of a quarter too little with four members."""
    found: dict[tuple[str, int], list[np.ndarray]] = {}
    exam = Exam.of(run, seed=0, past_only=False)
    usual = climatology(exam.record, exam.hours)
    for seed, members in [*((seed, 4) for seed in range(25)), (0, 400)]:
        for number, frame in enumerate(exam.frames(0, 6)[0].tolist()):
            known, judged, begin, _ = exam.scene(number, frame, 0)
            if len(judged) == 0:
                continue
            scene = scene_of(known, frame - begin, 0, exam.record.cells[judged])
            errors = np.zeros(len(judged), np.float32)
            for name, drawn in rivals(replace(exam, seed=seed), known, scene, members, usual, frame, errors)[0].items():
                if name in ("kriging", "climatology"):
                    scores = crps_map(drawn.astype(float), exam.record.values[judged].astype(float))
                    found.setdefault((name, members), []).append(scores)
    for name in ("kriging", "climatology"):
        few, many = (np.concatenate(found[name, members]).mean() for members in (4, 400))
        assert few == pytest.approx(many, rel=0.08)


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> sf.Run:
    """Three sensors, each read half of the time: nobody is set aside, and in some frames nobody is kept away."""
    folder, table = tmp_path_factory.mktemp("few") / "run", readings()
    table[:, 1:] = np.nan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("solidfield.models.solid_set.SolidSet.prepare", _hurried(SolidSet.prepare))
        return sf.fit(table, folder, model="solid-set", preset="smoke", transform="sqrt")


def test_three_sensors_are_judged_and_drawn_where_something_was_predicted(few, tmp_path, monkeypatch):
    monkeypatch.setattr("solidfield.report.rivals.LESSONS", 24)
    monkeypatch.setattr("solidfield.report.trees.LEAVES", (3,))
    monkeypatch.setattr("solidfield.report.trees.TREES", 20)
    exam = Exam.of(few, seed=0, past_only=False)
    counts = [len(exam.scene(number, int(frame), 0)[1]) for number, frame in enumerate(exam.frames(0, None)[0])]
    assert 0 in counts
    assert not exam.aside.any()
    findings = few.evaluate(members=20, scenes=len(counts))
    now, *ahead = findings.evidence
    assert len(now.targets.examples) == np.count_nonzero(counts)
    assert len(now.probes) == 0  # what a sensor has read is no prediction of it
    assert all(set(one.probes) == {1, 2, 3} for one in ahead)
    write_report(replace(findings, evidence=[now, ahead[-1]]), tmp_path / "report")
    assert (tmp_path / "report" / "report.html").is_file()
    assert not list((tmp_path / "report").rglob("lead0-series*"))
    assert list((tmp_path / "report").rglob("*-series*"))


def test_a_map_that_steps_three_times_as_far_is_three_times_as_rough(run, monkeypatch):
    exam = Exam.of(run, seed=0, past_only=False)

    def steeper(model, known, scene, members, seed, scaling):
        """A map of means three times kriging's."""
        mean = moments(torch.from_numpy(questions.kriged(run, known, scene, LATENTS[:, None])))[0].numpy()
        return np.empty((0, len(mean))), 3 * mean[None]

    monkeypatch.setattr(questions, "answer_shown", steeper)
    found = questions.texture(exam, scenes=1)
    assert found["rougher"]["pm"] == pytest.approx(3, rel=1e-4)
    assert found["rippled"]["pm"] == pytest.approx(9, rel=1e-4)


def test_texture_counts_cells_that_the_window_did_not_read_where_there_are_any():
    grid, seen = Grid((3, 4)), np.full((2, 1, 3, 4), NAN)
    seen[0, 0, 0], seen[1, 0, 1, 1] = 1.0, 1.0  # a row in the first frame, one cell in the second
    found = questions._without_sensors(Record.of_frames(seen, grid, ("x",), np.zeros(2)), 1, (1, 3, 4))
    np.testing.assert_array_equal(found[0], [[False] * 4, [True, False, True, True], [True] * 4])
    seen[0] = 1.0  # now the window has read every cell
    found = questions._without_sensors(Record.of_frames(seen, grid, ("x",), np.zeros(2)), 1, (1, 3, 4))
    np.testing.assert_array_equal(found[0], np.isnan(seen[1, 0]))


def test_a_stretch_makes_its_intervals_hold_their_share():
    generator = torch.Generator().manual_seed(0)
    wide = 1.4 * torch.randn(40_000, generator=generator)  # the truth is wider than the law
    factors = stretches(wide.abs(), torch.zeros(len(wide), dtype=torch.long))[:1]
    z = torch.special.ndtri(torch.tensor([(1 + level) / 2 for level in LEVELS], dtype=torch.float64)).float()
    edges = stretched(z[:, None], factors)[:, 0]
    held = [(wide.abs() <= edge).float().mean().item() for edge in edges]
    assert held == pytest.approx(LEVELS, abs=0.01)


def test_a_tail_is_that_of_all_kinds_alike_in_units_of_each_kind():
    """Laws ahead, too narrow by 1.2 or 1.5, with normal tails; others with heavier ones: each gets its own tail."""
    generator = torch.Generator().manual_seed(0)
    count, scale = 30_000, torch.where(torch.arange(len(KINDS)) % 2 == 0, 1.2, 1.5)
    kinds = torch.arange(len(KINDS)).repeat_interleave(count)
    normal = torch.randn(len(kinds), generator=generator)
    heavy = torch.where(normal.abs() > EDGES[1], normal * (normal.abs() / EDGES[1]), normal)  # beyond 90 % alone
    sizes = (scale[kinds] * torch.where(AHEAD_KINDS[kinds], normal, heavy)).abs()
    found = stretches(sizes, kinds)
    torch.testing.assert_close(found[:, :2], scale[:, None].expand(-1, 2), rtol=0.03, atol=0)
    torch.testing.assert_close(found[AHEAD_KINDS, 2:], scale[AHEAD_KINDS, None].expand(-1, 2), rtol=0.04, atol=0)
    expected = (scale[~AHEAD_KINDS, None] * EDGES[2:] / EDGES[1]).clamp(max=2.0)
    torch.testing.assert_close(found[~AHEAD_KINDS, 2:], expected, rtol=0.04, atol=0)


def test_a_single_wild_target_of_a_kind_hardly_moves_its_tail():
    """Of 600 targets ahead of one kind the largest is a hundred times the others': the tail is that of all."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.arange(len(KINDS)).repeat_interleave(600)
    sizes = torch.randn(len(kinds), generator=generator).abs()
    calm = stretches(sizes, kinds)
    wild = sizes.clone()
    wild[kinds == len(KINDS) - 1] = torch.where(sizes[-600:] > 2.8, 100.0, sizes[-600:])
    assert float((stretches(wild, kinds)[-1] / calm[-1]).max()) < 1.15


@pytest.mark.parametrize(("apart", "least", "most"), [(0.0, 0.0, 0.6), (0.5, 0.9, 1.05)])
def test_what_kinds_differ_by_is_theirs_as_far_as_other_days_bear_it_out(apart, least, most):
    """Days are good or bad for a kind by 20 %: if that is all, the mean of all kinds is nearer to the truth; if kinds
    differ by far more, they keep what is theirs."""
    generator, (days, each) = torch.Generator().manual_seed(0), (20, 25)
    own = apart * torch.linspace(-1, 1, len(KINDS))
    kinds = torch.arange(len(KINDS)).repeat_interleave(days * each)
    block = (torch.arange(days) // 2).repeat_interleave(each).repeat(len(KINDS))
    squares = torch.zeros(2)
    for _ in range(10):
        good = (0.2 * torch.randn(len(KINDS), days, generator=generator)).repeat_interleave(each, 1).flatten()
        sizes = (torch.randn(len(kinds), generator=generator) * (good + own[kinds]).exp()).abs()
        for way, told in enumerate((None, block)):
            squares[way] += (stretches(sizes, kinds, SLIMMEST, block=told)[:, 1].log() - own).var()
    assert least <= float((squares[1] / squares[0]).sqrt()) <= most
