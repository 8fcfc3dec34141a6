"""Studies: the judge finds 1 for the exact posterior, the right ratio for a wrong one; pages quote what is stored."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import contract
from solidfield.cli import app, bench, show
from solidfield.config import TrainConfig
from solidfield.disk import digest, read_json
from solidfield.errors import SolidError
from solidfield.experiments.bench.gaussian import RATIOS, GaussianCell, Judge
from solidfield.experiments.cell import Cell, Experiment, Place
from solidfield.experiments.pages import write_page
from solidfield.experiments.registry import EXPERIMENTS
from solidfield.experiments.runner import run_cells
from solidfield.experiments.schemes import SCHEMES
from solidfield.experiments.store import read_result, write_measured, write_result, write_sheet
from solidfield.experiments.studies.scale import SMOKE
from solidfield.keys import numpy_generator
from solidfield.models import build
from solidfield.worlds import GaussianWorld

WORLD = GaussianWorld(cells=16, frames=5)


@pytest.fixture(scope="module")
def scenes():
    generator = numpy_generator(0, "judge")
    fields = WORLD.trajectories(range(24))[:, :, 0].astype(np.float64)
    given = generator.random((24, 16, 16)) < 0.1
    exact = [WORLD.posterior(np.where(m, f[0], np.nan), lead=2) for m, f in zip(given, fields, strict=True)]
    members = np.stack([p.sample(150, generator) for p in exact], axis=1)
    return Judge(exact, fields[:, 2], given), members


def test_the_exact_posterior_measures_as_perfect(scenes):
    judge, members = scenes
    found = judge.compare(members)
    for name in ("crps", "block_crps", "energy"):
        assert found[name]["mean"] == pytest.approx(1, abs=0.02), name
    for name in ("spread", "block_spread"):
        assert found[name]["mean"] == pytest.approx(1, abs=0.03), name
    assert found["spread_correlation"]["mean"] > 0.85  # 150 members know a spread to 6 %
    assert found["roughness"]["mean"] == pytest.approx(1, abs=0.05)
    assert found["coverage"]["mean"] == pytest.approx(0.9, abs=4 * found["coverage"]["error"])
    assert all(abs(bin["spread"]["mean"] - 1) < 0.05 for bin in found["by_distance"])


def test_a_doubled_spread_measures_as_two(scenes):
    judge, members = scenes
    wide = judge.mean + 2 * (members - judge.mean)
    found = judge.compare(wide)
    assert found["spread"]["mean"] == pytest.approx(2, rel=0.03)
    assert found["block_spread"]["mean"] == pytest.approx(2, rel=0.03)
    assert found["coverage"]["mean"] > 0.97
    assert found["crps"]["mean"] > 1.1


def test_shuffled_members_keep_their_cells_and_lose_their_coherence(scenes):
    """Permuting members independently at every cell changes no marginal score, and every joint one."""
    judge, members = scenes
    found = judge.compare(numpy_generator(1, "shuffle").permuted(members, axis=0))
    assert found["crps"]["mean"] == pytest.approx(judge.compare(members)["crps"]["mean"], rel=1e-6)
    assert found["block_spread"]["mean"] < 0.7
    assert found["roughness"]["mean"] > 1.2


def test_every_scheme_can_be_built():
    spec = contract.make_spec()
    for scheme in SCHEMES.values():
        model = build(scheme.model, spec, scheme.options)
        assert scheme.leaks == (scheme.name == "oracle")
        assert model.name == scheme.model
        TrainConfig(**scheme.settings)  # an unknown setting is an error


# ---- cells of all experiments


@dataclass(frozen=True)
class Coin(Cell):
    """An experiment of one file: so many throws of a coin."""

    HOME = "coin"
    JUDGED = ("digits",)

    throws: int
    digits: int = 3

    @property
    def words(self):
        return (f"{self.throws} throws",)

    def measure(self, place, progress=None):
        if self.throws < 0:
            raise SolidError("a coin cannot be thrown back")
        with open(place.work / "log", "a") as log:
            log.write(f"{self.throws}\n")
        return {"heads": round(float(numpy_generator(self.seed, "coin").binomial(self.throws, 0.5)), self.digits)}


def coin_cells(throws: Annotated[list[int], "How many; repeatable."] = [10, 20]):  # noqa: B006
    return [Coin(count) for count in throws]


def coin_tables(results):
    return [(("throws", "heads"), [(str(r["cell"]["throws"]), f"{r['heads']:g}") for r in results])]


COIN = Experiment("coin", "Throw coins.", coin_cells, coin_tables)


def test_a_key_changes_with_whatever_decides_the_result_and_a_run_with_what_decides_the_weights():
    cell = Coin(10)
    assert cell.key == Coin(10).key
    assert len({cell.key, Coin(11).key, Coin(10, digits=4).key, Coin(10, seed=1).key}) == 4
    assert cell.run == Coin(10, digits=4).run != Coin(10, seed=1).run


def test_what_is_stored_is_not_measured_again_and_a_failure_stops_nothing(tmp_path):
    place, results = Place(tmp_path), tmp_path / "results"
    first = run_cells([Coin(10), Coin(-1)], place, results, "solid bench coin")
    assert (first.run, list(first.failed)) == ((Coin(10).key,), [Coin(-1).key])
    again = run_cells([Coin(10), Coin(20)], place, results, "solid bench coin")
    assert (again.run, again.skipped) == ((Coin(20).key,), 1)
    assert (tmp_path / "log").read_text() == "10\n20\n"
    stored = read_result(Coin(10), results)
    assert {"command", "seed", "commit", "date", "versions", "machine"} <= set(stored["provenance"])


def test_a_line_in_the_registry_gives_a_verb_with_its_options_and_a_part_of_a_page(tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "coin", COIN)
    verbs = typer.Typer()
    verbs.command("coin")(bench._verb(COIN))
    verbs.command("other")(lambda: None)
    words = ["coin", "--throws", "4", "--throws", "8", "--work", str(tmp_path), "--results", str(tmp_path / "results")]
    done = CliRunner().invoke(verbs, words, catch_exceptions=False)
    assert "2 run, 0 were stored" in done.stdout
    assert "2 were stored" in CliRunner().invoke(verbs, words, catch_exceptions=False).stdout
    page = tmp_path / "page.md"
    page.write_text("<!-- part coin -->\n<!-- end -->\n")
    write_page(page, tmp_path / "results", SMOKE)
    heads = read_result(Coin(8), tmp_path / "results")["heads"]
    assert f"| 8 | {heads:g} |" in page.read_text()
    before = page.read_text()
    CliRunner().invoke(verbs, [*words, "--only", Coin(4).key], catch_exceptions=False)
    write_page(page, tmp_path / "results", SMOKE)
    assert page.read_text() == before  # what --only leaves out is still a row of the table


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_names_its_cells_with_unique_keys(name):
    cells = EXPERIMENTS[name].cells()
    assert len({cell.key for cell in cells}) == len(cells) > 0
    verb = CliRunner().invoke(app, ["bench", name, "--help"], catch_exceptions=False).stdout
    assert "--within" in verb


def test_stored_cells_are_those_that_their_sheets_list():
    """Each document is sound, and its key is the hash of what it says of itself."""
    results = Path(__file__).parents[1] / "results"
    for path in results.glob("*.json"):
        for place in read_json(path)["cells"]:
            document = read_json(results / f"{place}.json")
            assert place.endswith(f"{document['key']}")
            assert document["key"].endswith(digest(document["cell"])[:8])


def test_a_command_is_remembered_without_places(monkeypatch):
    words = "bench era5 --data somewhere/private --jobs 4 --work=elsewhere --minutes 5 --out a.json"
    monkeypatch.setattr("sys.argv", ["solid", *words.split()])
    assert show.command() == "solid bench era5 --data DIR --minutes 5"


# ---- pages


def test_a_page_quotes_what_is_stored_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- part speed -->\nold numbers\n<!-- end -->\nafter\n")
    write_measured(tmp_path / "speed.json", "python it.py", 3, {"ratio": 12.3456})
    assert write_page(page, tmp_path, SMOKE) == ["speed"]
    text = page.read_text()
    assert "12.35" in text
    assert "python it.py" in text
    assert "old numbers" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert write_page(page, tmp_path, SMOKE) == ["speed"]  # a table can be written again
    assert page.read_text() == text


def test_a_page_names_every_commit_that_its_cells_come_from_and_counts_what_is_missing(tmp_path):
    page, cells = tmp_path / "page.md", [GaussianCell("exact", lead, None, 400, 64, 100) for lead in (0, 1, 2)]
    page.write_text("<!-- part sheet -->\n<!-- end -->\n")
    entry = dict.fromkeys(RATIOS) | {"error_at_sensors": 0.0, "by_distance": []}
    for cell, commit in zip(cells, ("aaaaaaaaaa", "bbbbbbbbbb"), strict=False):
        about = {"command": "solid", "seed": 0, "commit": commit, "date": "2026-01-01", "machine": "m"}
        write_result(cell, tmp_path, entry | {"provenance": about})
    write_sheet(tmp_path / "sheet.json", "gaussian", cells)
    write_page(page, tmp_path, SMOKE)
    assert "commit aaaaaaaaaa, 2026-01-01, m; `solid`, seed 0, commit bbbbbbbbbb" in page.read_text()
    assert "1 cells of it are missing" in page.read_text()


def test_a_missing_result_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- part heat -->\n<!-- end -->\n")
    with pytest.raises(SolidError, match=r"heat\.json"):
        write_page(page, tmp_path, SMOKE)
