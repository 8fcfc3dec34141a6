"""The paper's twelve scenarios: exact counts, disjoint halves, and nothing but the arguments decides."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from solidfield.config import ScenarioConfig
from solidfield.errors import SolidError
from solidfield.worlds.scenarios import PAPER_SCENARIOS, Scenario, as_dict, scenario, scenario_masks

COUNTS = {
    "random-4": 163,
    "random-10": 409,
    "random-40": 1638,
    "block-2": 128,
    "block-6": 384,
    "block-26": 1664,
}


def masks(record: Scenario, index: int = 0, seed: int = 0, shape=(64, 64), **changes):
    return scenario_masks(**as_dict(record) | changes, shape=shape, index=index, seed=seed)


def test_there_are_twelve():
    assert len(PAPER_SCENARIOS) == 12
    assert {name.rsplit("-", 1)[0] for name in PAPER_SCENARIOS} == set(COUNTS)


@pytest.mark.parametrize("name", PAPER_SCENARIOS)
def test_exact_counts_and_disjoint_halves(name):
    for index in range(5):
        m_i, m_o = masks(scenario(name), index)
        assert m_i.dtype == m_o.dtype == bool
        assert m_i.shape == m_o.shape == (64, 64)
        assert (m_i | m_o).sum() == COUNTS[name.rsplit("-", 1)[0]]
        assert not (m_i & m_o).any()
        assert 0 <= m_i.sum() - m_o.sum() <= (1 if name.startswith("random") else 0)


@pytest.mark.parametrize("name", PAPER_SCENARIOS)
def test_global_is_one_pair_and_instance_one_per_example(name):
    m_i, m_o = masks(scenario(name), index=3)
    again_i, again_o = masks(scenario(name), index=3)
    assert (m_i == again_i).all()
    assert (m_o == again_o).all()
    other_i, _ = masks(scenario(name), index=4)
    assert (m_i == other_i).all() == name.endswith("global")
    assert (masks(scenario(name), index=3, seed=1)[0] != m_i).any()


def test_masks_are_the_same_in_another_process():
    code = (
        "from solidfield.worlds.scenarios import scenario_masks; import hashlib;"
        "m = scenario_masks('block', 26, 'instance', (64, 64), 17, 5);"
        "print(hashlib.sha256(m[0].tobytes() + m[1].tobytes()).hexdigest())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    m_i, m_o = scenario_masks("block", 26, "instance", (64, 64), np.int64(17), np.int64(5))
    assert hashlib.sha256(m_i.tobytes() + m_o.tobytes()).hexdigest() == there


@pytest.mark.parametrize(("pattern", "amount", "unit"), [("random", 0.1, 1), ("block", 6, 64), ("block", 5, 64)])
@pytest.mark.parametrize("overlap", [0.0, 0.2, 0.5, 1.0])
def test_overlap_counts_units_and_keeps_the_union(pattern, amount, unit, overlap):
    m_i, m_o = scenario_masks(pattern, amount, "instance", (64, 64), 2, 0, overlap)
    plain_i, plain_o = scenario_masks(pattern, amount, "instance", (64, 64), 2, 0)
    assert ((m_i | m_o) == (plain_i | plain_o)).all()
    n = (m_i | m_o).sum() // unit
    assert (m_i & m_o).sum() == unit * int(overlap * n + 0.5)


@pytest.mark.parametrize(("density", "shape", "count"), [(0.29, (10, 10), 29), (0.1, (21, 20), 42), (1.0, (5, 7), 35)])
def test_density_is_the_floor_of_density_times_cells(density, shape, count):
    m_i, m_o = scenario_masks("random", density, "instance", shape, 0, 0)
    assert (m_i | m_o).sum() == count


def test_density_counts_cells_of_the_domain():
    domain = np.zeros((16, 16), dtype=bool)
    domain[:, :5] = True
    m_i, m_o = scenario_masks("random", 0.5, "instance", (16, 16), 0, 0, domain=domain)
    assert (m_i | m_o).sum() == 40
    assert not ((m_i | m_o) & ~domain).any()


def test_any_grid_and_block_size():
    m_i, m_o = scenario_masks("block", 5, "instance", (21, 20), 0, 0, block=4)
    assert (m_i.sum(), m_o.sum()) == (48, 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("random", 0.001, "instance", (8, 8)),
            r"density 0.001 on a 8 x 8 grid is 0 sensor.*raise the density",
        ),
        (("block", 1, "instance", (64, 64)), r"1 block\(s\) on a 64 x 64 grid .*number of blocks to 2"),
        (("random", 10, "instance", (8, 8)), r"amount 10 .*density.*\(0, 1\]"),
        (("block", 2.5, "instance", (64, 64)), r"amount 2.5 .*whole number"),
        (("stripe", 2, "instance", (64, 64)), "pattern 'stripe'"),
        (("random", 0.1, "local", (64, 64)), "regime 'local'"),
    ],
)
def test_errors_name_the_culprit_and_the_remedy(arguments, message):
    with pytest.raises(SolidError, match=message) as error:
        scenario_masks(*arguments, 0, 0)
    assert "\n" not in str(error.value)


def test_overlap_must_be_a_share():
    with pytest.raises(SolidError, match=r"overlap 1\.5"):
        scenario_masks("random", 0.1, "instance", (8, 8), 0, 0, overlap=1.5)


def test_unknown_scenario_suggests_a_name():
    with pytest.raises(SolidError, match=r"did you mean 'random-10-instance'\?"):
        scenario("random-10-instances")


def test_the_configuration_record_is_a_scenario():
    assert as_dict(ScenarioConfig()) == as_dict(scenario("random-10-instance"))
