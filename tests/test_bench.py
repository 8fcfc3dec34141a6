"""Studies: the judge finds 1 for the exact posterior, the right ratio for a wrong one; pages quote what is stored."""

import json

import numpy as np
import pytest

from solidfield.errors import SolidError
from solidfield.experiments.bench.gaussian import Judge
from solidfield.experiments.bench.page import write_tables
from solidfield.experiments.bench.record import store
from solidfield.experiments.bench.schemes import SCHEMES
from solidfield.keys import numpy_generator
from solidfield.models import MODELS
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


def test_every_scheme_is_a_model_with_known_options():
    for scheme in SCHEMES.values():
        assert scheme.model in MODELS
        assert scheme.leaks == (scheme.name == "oracle")


def test_a_page_quotes_what_is_stored_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table speed -->\nold numbers\n<!-- end -->\nafter\n")
    store(tmp_path / "speed.json", "python it.py", 3, {"ratio": 12.3456})
    assert write_tables(page, tmp_path) == ["speed"]
    text = page.read_text()
    assert "12.35" in text
    assert "python it.py" in text
    assert "old numbers" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert write_tables(page, tmp_path) == ["speed"]  # a table can be written again
    assert page.read_text() == text
    kept = json.loads((tmp_path / "speed.json").read_text())["provenance"]
    assert {"command", "seed", "commit", "date", "versions", "machine"} <= set(kept)


def test_a_missing_result_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- table heat -->\n<!-- end -->\n")
    with pytest.raises(SolidError, match=r"heat\.json"):
        write_tables(page, tmp_path)
