"""A run judged without truth: regions by brute force, nothing seen is scored, a report that opens with the verdict."""

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from dated import dated_store, fitted_run
from solidfield import cli
from solidfield.errors import SolidError
from solidfield.grid import Grid, lengths
from solidfield.report import evaluate_run, write_report
from solidfield.report.ensembles import contenders, draw_targets
from solidfield.report.figures import pictures
from solidfield.report.page import page
from solidfield.report.scoring import judge
from solidfield.report.targets import choose_examples, reading_targets, share_beyond
from solidfield.scores.metrics import crps_map
from solidfield.scores.table import ScoreTable
from tiny import TinyTruth, tiny_store

MEMBERS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def store(folder):
    return dated_store(folder / "run" / "pairs.zarr")


@pytest.fixture(scope="module")
def run(folder, store):
    return fitted_run(folder / "run", store, "climatology")


@pytest.fixture(scope="module")
def held(store, run):
    return reading_targets(store, choose_examples(store, 1), run.never_supervised.numpy())


@pytest.fixture(scope="module")
def findings(run, store):
    return evaluate_run(run, store, rivals=("nearest", "persistence", "kriging"), members=MEMBERS)


def readings_one_by_one(store, lead):
    """(example, cell, value, cells of the source) of every held-out reading, in the order of time."""
    examples = sorted(
        (i for i in store.split("test") if store.columns["lead"][i] == lead),
        key=lambda i: store.columns["time_target"][i],
    )
    for example in examples:
        _, given, _ = store.readings_of("source", [example])
        _, cells, values = store.readings_of("target", [example])
        for cell, value in zip(cells, values, strict=True):
            yield example, int(cell), value, given


def test_regions_are_what_their_names_say_reading_by_reading(store, run, held) -> None:
    (dy, dx), unit = lengths(store.grid)
    never = run.never_supervised.numpy().ravel()
    sensors, blocks = (store.held[name].ravel() for name in ("held_sensors", "held_blocks"))
    width = store.grid.shape[1]
    for r, (example, cell, value, given) in enumerate(readings_one_by_one(store, 1)):
        assert (held.examples[held.scene[r]], held.cell[r], held.values[r]) == (example, cell, value)
        away = np.hypot(dy * (cell // width - given // width), dx * (cell % width - given % width)).min()
        assert held.distance[r] == pytest.approx(away, rel=1e-3)  # a great circle is not quite flat
        expected = {
            "all": True,
            "seen": cell in given,
            "unseen": cell not in given,
            "held_sensors": sensors[cell],
            "held_blocks": blocks[cell],
            "held_days": not (sensors[cell] or blocks[cell]),
            "never_supervised": never[cell],
        }
        assert {name: bool(rows[r]) for name, rows in held.regions.items()} == expected
    assert r + 1 == len(held.scene)
    assert unit == "km"


def test_what_is_held_was_never_a_source_nor_taught(store) -> None:
    cells = np.flatnonzero(store.held["held_sensors"] | store.held["held_blocks"])
    everything = np.arange(len(store))
    _, given, _ = store.readings_of("source", everything)
    assert not np.isin(given, cells).any()
    for split in ("train", "validation"):
        assert not np.isin(store.readings_of("target", store.split(split))[1], cells).any()


def test_scores_are_plain_means_over_readings(store, run, held) -> None:
    """CRPS, coverage and spread of every region by brute force from whole maps."""
    climatology, kriging = contenders(run, store, ("kriging",))
    members = {c.name: draw_targets(c, store, [held], MEMBERS).members[0] for c in (climatology, kriging)}
    table = judge(held, members, store, (2.0,))
    each = {name: crps_map(x, held.values) for name, x in members.items()}
    own = members["climatology"]
    for region, rows in held.regions.items():
        score = table.one(model="climatology", region=region)
        assert score.cells == rows.sum()
        assert score["crps"].mean == pytest.approx(each["climatology"][rows].mean())
        assert score.scaled("crps").mean == pytest.approx(each["climatology"][rows].mean() / 2)
        assert score["mae"].mean == pytest.approx(np.abs(np.median(own, 0) - held.values)[rows].mean(), rel=1e-5)
        variance = (MEMBERS + 1) / MEMBERS * own.var(axis=0, ddof=1, dtype=float)[rows].mean()
        error = ((own.mean(axis=0, dtype=float) - held.values)[rows] ** 2).mean()
        assert score["spread_skill"].mean == pytest.approx(np.sqrt(variance / error), rel=1e-5)
        (gap,) = table.compared(rival="kriging", region=region)
        assert gap.difference.mean == pytest.approx((each["climatology"] - each["kriging"])[rows].mean())
        assert gap.saved.mean == pytest.approx(1 - each["climatology"][rows].mean() / each["kriging"][rows].mean())
    for kind in ("distance", "hour"):
        bins = table.select(model="climatology", bins=kind)
        assert sum(score.cells for score in bins) == len(held.scene)
        total = sum(score.cells * score["crps"].mean for score in bins)
        assert total / len(held.scene) == pytest.approx(each["climatology"].mean())
    assert table.select(bins="distance")[0].bin.high == 0  # the sensors themselves are a bin of their own


def test_members_are_those_of_the_whole_maps_however_the_scenes_are_cut(store, run, held, monkeypatch) -> None:
    model = contenders(run, store, ())[0]
    probes = np.array([3, 17])
    whole = draw_targets(model, store, [held], 4, seed=2, probes=probes, picture=5)
    monkeypatch.setattr("solidfield.report.ensembles.BUDGET", 4 * 4 * store.grid.cells * 3)  # three scenes at a time
    cut = draw_targets(model, store, [held], 4, seed=2, probes=probes, picture=5)
    np.testing.assert_array_equal(whole.members[0], cut.members[0])
    for name in ("probes", "picture"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(cut, name))
    flat = whole.picture.reshape(4, -1)
    np.testing.assert_array_equal(whole.probes[:, 5], flat[:, probes])
    here = held.scene == 5
    np.testing.assert_array_equal(whole.members[0][:, here], flat[:, held.cell[here]])


def test_examples_are_a_stated_sample_evenly_in_time(store) -> None:
    every = choose_examples(store, 1)
    assert (np.diff(store.columns["time_target"][every]) > 0).all()
    few = choose_examples(store, 1, 5)
    places = np.searchsorted(store.columns["time_target"][every], store.columns["time_target"][few])
    assert places.tolist() == np.linspace(0, len(every) - 1, 5).round().astype(int).tolist()
    with pytest.raises(SolidError, match="no test example of lead 7"):
        choose_examples(store, 7)


def test_lengths_are_kilometres_on_the_earth_and_the_grids_own_elsewhere() -> None:
    (dy, dx), unit = lengths(Grid((3, 3), (0.1, 0.1), (59.9, 0.0), axes=("lat", "lon"), units="degrees"))
    assert unit == "km"
    assert dy == pytest.approx(11.12, abs=0.01)
    assert dx == pytest.approx(dy / 2, rel=1e-6)  # cos 60 degrees
    assert lengths(Grid((3, 3), (500.0, 250.0), units="m")) == ((0.5, 0.25), "km")
    assert lengths(Grid.box(4, 4, 1.0)) == ((1.0, 1.0), "cells")


def test_the_share_of_the_map_beyond_a_distance_is_counted(store) -> None:
    examples = choose_examples(store, 1)[:3]
    assert share_beyond(store, examples, -1.0) == 1.0
    assert share_beyond(store, examples, 1e9) == 0.0
    sources = len(store.readings_of("source", examples)[0])
    assert share_beyond(store, examples, 0.0) == pytest.approx(1 - sources / (3 * store.grid.cells))


def test_findings_are_strict_json_with_one_name_for_the_nearest_reading(findings) -> None:
    table = findings.table
    assert ScoreTable.from_json(json.loads(json.dumps(table.to_json(), allow_nan=False))) == table
    now, later = table.leads
    assert table.models(0) == ["climatology", "nearest", "kriging"]
    assert table.models(1) == ["climatology", "persistence", "kriging"]
    assert (now.main, later.main) == ("unseen", "all")
    assert later.ahead == "6 hours ahead"
    assert later.groups == 8  # days
    assert table.about["run"]["trained_on_this_store"]


def test_a_run_that_loses_is_told_so(findings) -> None:
    """Kriging knows the readings, climatology does not."""
    verdict = findings.verdict
    assert verdict.headline.startswith("Not worth it here: kriging is better")
    assert [call.result for call in verdict.calls] == ["worse", "worse"]
    assert any("at held-out sensors: kriging wins" in line for line in verdict.worth)


def test_a_run_against_its_own_kind_keeps_both_names(run, store) -> None:
    names = [c.name for c in contenders(run, store, ("climatology",), [run])]
    assert names == ["climatology (this run)", "climatology", "climatology (run)"]
    with pytest.raises(SolidError, match="both called"):
        contenders(run, store, (), [run, run])
    other = replace(run, grid=Grid((3, 3)))
    with pytest.raises(SolidError, match="differ in grid"):
        contenders(other, store, ())


class Links(HTMLParser):
    """Everything that a page would fetch, and the order of its sections and headings."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched, self.tags, self.sections, self.images = [], [], [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.fetched += [found[name] for name in ("src", "href", "srcset", "data", "action") if name in found]
        if tag == "section":
            self.sections.append(found["id"])
        if tag == "img":
            self.images.append(found)


def parsed(text: str) -> Links:
    links = Links()
    links.feed(text)
    return links


def test_one_command_leads_from_a_run_to_its_report(tmp_path) -> None:
    """`solid evaluate RUN` finds the run's own pairs, and the page needs nothing beside itself."""
    out = tmp_path / "report"
    fitted_run(tmp_path / "run", dated_store(tmp_path / "run" / "pairs.zarr", leads=(1,)), "climatology")
    words = ["evaluate", tmp_path / "run", "--out", out, "--members", MEMBERS, "--scenes", 12, "--rival", "persistence"]
    result = CliRunner().invoke(cli.app, [str(word) for word in (*words, "--json")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    scores = json.loads((out / "scores.json").read_text())
    assert printed["verdict"] == scores["verdict"]
    assert [lead["scenes"] for lead in scores["leads"]] == [12]
    text = (out / "report.html").read_text()
    found = parsed(text)
    assert found.sections[0] == "verdict"
    assert text.index(scores["verdict"]["headline"]) < text.index("<table>")
    assert all(link.startswith("data:image/png;base64,") for link in found.fetched)
    assert not {"script", "link", "iframe", "object"} & set(found.tags)
    words_alone = re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
    assert "http" not in words_alone
    assert "url(" not in words_alone
    assert all(image["alt"] for image in found.images)
    pictures = sorted(path.name for path in out.glob("*.png"))
    assert len(pictures) == len(found.images)
    kinds = {name.removesuffix(".png").split("-")[-1] for name in pictures}
    assert kinds == {"models", "maps", "calibration", "distance", "hour", "series", "taught"}
    assert "test times (+05:30)" in text  # by the clock of these readings
    assert "solid evaluate run --out report --members 20" in text
    assert str(tmp_path) not in text
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]  # nothing half-written is left
    with pytest.raises(SolidError, match="never written over"):
        CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)


def test_hostile_names_are_shown_and_not_run(findings) -> None:
    name, units = "<script>alert('$x$')</script>", '"><img src=x>'
    document = json.loads(json.dumps(findings.table.to_json()).replace('"pm"', json.dumps(name)))
    table = ScoreTable.from_json(document | {"variables": {name: units}})
    words = replace(findings.verdict, headline=f"{findings.verdict.headline} {name}")
    text = page(table, words, [("maps", name, units, b"png")], f"solid evaluate {name}")
    found = parsed(text)
    assert "script" not in found.tags
    assert [image["src"][:5] for image in found.images] == ["data:"]
    assert found.images[0]["alt"] == units
    assert "&lt;script&gt;" in text


def test_tables_have_headers_for_who_listens(findings) -> None:
    text = page(findings.table, findings.verdict, [], "solid evaluate run")
    assert text.count("<table>") == text.count("<caption>") == 4  # models and regions, at two leads
    assert '<th scope="row">kriging</th>' in text
    for heading in ('<html lang="en">', "prefers-color-scheme", "@media print"):
        assert heading in text


def test_a_run_without_pairs_or_with_a_truth_is_an_error_of_one_line(folder, run, tmp_path) -> None:
    lonely = tmp_path / "lonely"
    lonely.mkdir()
    for name in ("run.json", "weights.safetensors", "cells.safetensors"):
        (lonely / name).write_bytes((folder / "run" / name).read_bytes())
    for words, message in (
        ((lonely,), "--pairs"),
        ((lonely, "--truth", "t"), "--truth is for maps"),
        ((tmp_path / "maps.nc",), "no run folder"),
    ):
        with pytest.raises(SolidError, match=message):
            CliRunner().invoke(cli.app, ["evaluate", *map(str, words)], catch_exceptions=False)
    with pytest.raises(SolidError, match="never written over"):
        write_report(None, folder / "run")  # type: ignore[arg-type]


def test_a_simulation_is_judged_by_trajectory_without_hours_or_days(tmp_path) -> None:
    simulated = tiny_store(tmp_path / "pairs", TinyTruth.make(channels=2))
    found = evaluate_run(
        fitted_run(tmp_path / "run", simulated, "climatology"), simulated, rivals=("kriging",), members=20
    )
    (later,) = found.table.leads
    assert found.table.about["group"] == "trajectory"
    assert later.groups == 2
    assert {score.variable for score in found.table.select(model="kriging")} == {"u", "v"}
    assert not found.table.select(bins="hour")
    assert "held_days" not in {score.region for score in found.table.scores}
    names = [picture.name for picture in pictures(found)]
    assert {"lead1-1-models", "lead1-2-models", "lead1-1-series", "lead1-2-series", "taught-1", "taught-2"} <= set(
        names
    )
    assert not [name for name in names if "hour" in name]


def test_findings_show_themselves_in_notebooks(findings):
    """The verdict and the score of every lead, in HTML and SVG without scripts, small; markup in names is text."""
    html = findings._repr_html_()
    assert findings.verdict.headline in unescape(html)
    for call in findings.verdict.calls:
        assert f">{call.where}</td>" in html
        assert f"CRPS {call.own['crps'].mean:.3g}" in html
    assert html.count("<svg") == 2
    assert len(html) < 60_000
    assert not re.search(r"<script|on\w+=|https?:", html)
    named = replace(findings, run=replace(findings.run, variables=("<b>pm",)))._repr_html_()
    assert "<b>" not in named
    assert "&lt;b&gt;pm" in named
