"""What a model costs: counts against closed forms, ensembles against brute force, and the page against the models."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

import contract
import solidfield.experiments.costs
from solidfield.disk import read_json
from solidfield.errors import SolidError
from solidfield.experiments.costs import (
    PAPER_TABLE,
    SENSORS,
    STORED,
    UNKNOWN_TO_TORCH,
    ensemble_cost,
    example,
    gmacs,
    known_costs,
    pass_cost,
    survey,
    table,
)
from solidfield.experiments.pages import write_page
from solidfield.experiments.studies.catalog import cells, random
from solidfield.experiments.studies.scale import LAPTOP
from solidfield.forecast import Forecaster, Spec
from solidfield.grid import Grid
from solidfield.models import MODELS, THE_NINE, build
from solidfield.models.denoising import Denoising
from solidfield.noise import MemberNoise

ROOT = Path(__file__).parents[1]
SPEC = contract.make_spec()
each_model = pytest.mark.parametrize("name", MODELS)


@pytest.mark.parametrize(
    ("run", "macs"),
    [
        (lambda: torch.ones(3, 4) @ torch.ones(4, 5), 3 * 4 * 5),
        (lambda: F.conv2d(torch.ones(2, 3, 8, 8), torch.ones(5, 3, 3, 3), padding=1), 2 * 5 * 64 * 3 * 9),
        (lambda: F.conv2d(torch.ones(2, 6, 8, 8), torch.ones(6, 1, 3, 3), padding=1, groups=6), 2 * 6 * 64 * 9),
        (lambda: F.scaled_dot_product_attention(*torch.ones(3, 2, 4, 6, 8)), 2 * 4 * 6 * 6 * (8 + 8)),
        (lambda: torch.fft.fft(torch.ones(3, 16, dtype=torch.complex64)), 3 * 2.5 * 16 * 4),
        (lambda: torch.fft.rfft2(torch.ones(3, 8, 16)), 3 * 1.25 * 128 * 7),
        (lambda: torch.fft.irfft2(torch.ones(3, 8, 9, dtype=torch.complex64), s=(8, 16)), 3 * 1.25 * 128 * 7),
        (lambda: torch.linalg.cholesky(torch.eye(12).expand(2, 12, 12)), 2 * 12**3 / 6),
        (lambda: torch.linalg.solve_triangular(torch.eye(12), torch.ones(12, 5), upper=False), 12 * 12 * 5 / 2),
        (lambda: torch.cholesky_solve(torch.ones(12, 5), torch.eye(12)), 12 * 12 * 5),
        (lambda: torch.ones(100).exp() + 1, 0),
    ],
)
def test_an_operation_has_its_closed_form(run, macs: float):
    assert gmacs(run) == pytest.approx(macs / 1e9, rel=1e-12)


def test_the_paper_size_unet_is_counted_by_hand():
    """Twice 3 x 3 at each level down and up, two transposed 2 x 2, one 1 x 1; the paper prints 0.397."""
    fine, half, quarter = 64 * 64, 32 * 32, 16 * 16
    down = 9 * (fine * (32 + 32 * 32) + half * (32 * 64 + 64 * 64) + quarter * (64 * 128 + 128 * 128))
    up = 9 * (half * (128 * 64 + 64 * 64) + fine * (64 * 32 + 32 * 32))
    rise = quarter * 128 * 64 * 4 + half * 64 * 32 * 4
    spec = Spec(Grid.box(64, 64, 1.0))
    counted = pass_cost(build("unet", spec, {"size": "paper"}).eval(), example(spec))
    assert counted == pytest.approx((down + up + rise + fine * 32) / 1e9, rel=1e-12)
    assert counted == pytest.approx(PAPER_TABLE["unet"][1], rel=0.005)


@each_model
def test_an_ensemble_costs_what_drawing_it_costs(name: str):
    """The extrapolation from one and two members, or from one pass, against counting five of them."""
    model = contract.build(MODELS[name], SPEC, batches=1).eval()
    source = example(SPEC)
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCH) as counter:
        model.sample(source, 5, MemberNoise(0, [0], range(5)))
    assert ensemble_cost(model, source, 5) == pytest.approx(counter.get_total_flops() / 2e9, rel=1e-9)


@pytest.mark.parametrize("name", ["solid-paper", "ddo"])
def test_tensors_without_contents_cost_the_same(name: str):
    model = contract.build(MODELS[name], SPEC).eval()
    source = example(SPEC)
    full = pass_cost(model, source), ensemble_cost(model, source, 7)
    hollow = source.map(lambda tensor: tensor.to("meta"))
    model = model.to("meta")
    assert (pass_cost(model, hollow), ensemble_cost(model, hollow, 7)) == pytest.approx(full, rel=1e-9)


def test_members_cost_what_their_family_says(monkeypatch: pytest.MonkeyPatch):
    """A point forecast nothing, a chain all its steps again, anything else at most one more pass."""
    chosen = {name: MODELS[name] for name in ("unet", "oformer", "infty-diff", "unet-mixture", "inr-gan", "kriging")}
    monkeypatch.setattr(solidfield.experiments.costs, "MODELS", chosen)
    costs = survey("smoke", 16, members=10)
    assert list(costs) == list(chosen)
    for name, cost in costs.items():
        most = 10.0001 * cost.gmacs_pass
        if issubclass(chosen[name], Denoising):
            steps = chosen[name].SIZES["smoke"]["steps"]
            assert 0.9 * most * steps <= cost.gmacs_ensemble <= 1.1 * most * steps, name
        elif not chosen[name].stochastic:
            assert cost.gmacs_ensemble == cost.gmacs_pass, name
        else:
            assert cost.gmacs_pass <= cost.gmacs_ensemble <= most, name


def test_an_example_has_its_share_of_sensors():
    source = example(Spec(Grid.box(64, 64, 1.0)))
    assert int(source.mask.sum()) == round(SENSORS * 4096) == 205


def test_an_unknown_size_is_named():
    with pytest.raises(SolidError, match="'huge'"):
        survey("huge")


@pytest.mark.parametrize("model", [*THE_NINE, MODELS["unet-mixture"]], ids=lambda model: model.name)
def test_a_result_says_whether_the_mask_is_an_input(model: type[Forecaster]):
    """Off unless asked for, as in the paper; the rival that the paper lacks has it on."""
    made = contract.build(model, SPEC)
    assert made.mask_channel is (model.name == "unet-mixture")
    for on, word in ((True, "on"), (False, "off")):
        assert contract.build(model, SPEC, mask_channel=on).label() == f"{model.name}, mask channel {word}"


def test_the_table_has_the_papers_columns_only_where_there_are_any():
    row = {"family": "f", "reference": "r", "parameters": 1234, "gmacs_pass": 0.12345, "gmacs_ensemble": 1234.5}
    bare = row | {"mask_channel": None, "paper_parameters": None, "paper_gmacs": None}
    header, rows = table({"a": bare}, 100)
    assert rows == [("a", "f", "-", "1,234", "0.123", "1,234", "r")]
    assert len(header) == len(rows[0])
    header, rows = table({"a": bare, "b": bare | {"paper_parameters": 1235, "paper_gmacs": 0.0}}, 100)
    assert [len(row) for row in rows] == [len(header)] * 2
    assert rows[1][3:7] == ("1,234", "1,235", "0.123", "-")


@pytest.mark.parametrize("name", ["models", "models-laptop"])
def test_the_page_quotes_the_models_as_they_are(name: str, tmp_path: Path):
    """Parameters now, against those that were stored; the page, against what is stored."""
    stored = read_json(STORED / f"{name}.json")["result"]
    spec = Spec(Grid.box(stored["grid"], stored["grid"], 1.0))
    for model, cost in stored["costs"].items():
        with torch.device("meta"):
            found = build(model, spec, {"size": stored["size"]}).parameter_count()
        again = f"--size {stored['size']} --grid {stored['grid']} --out {STORED / name}.json"
        assert found == cost["parameters"], f"store it again: solid models {again}"
        assert not math.isnan(cost["gmacs_pass"])
    page = tmp_path / "models.md"
    page.write_text((ROOT / "docs" / "models.md").read_text())
    assert name in write_page(page, ROOT / "results", LAPTOP)
    assert page.read_text() == (ROOT / "docs" / "models.md").read_text(), "solid bench report docs/models.md"


def test_stored_costs_are_shown_without_counting(monkeypatch: pytest.MonkeyPatch):
    def counting(*_: object) -> None:
        raise AssertionError("counted")

    monkeypatch.setattr(solidfield.experiments.costs, "_surveyed", counting)
    for name in ("models", "models-laptop"):
        stored = read_json(STORED / f"{name}.json")["result"]
        assert known_costs(stored["size"], stored["grid"]) == stored["costs"]


def test_a_new_model_is_in_the_costs_and_in_the_studies_without_another_edit(monkeypatch: pytest.MonkeyPatch):
    """Its file and its line in the list of models are enough."""

    class Dummy(MODELS["unet"]):
        name = "dummy"
        reference = "nobody"

    monkeypatch.setitem(MODELS, "dummy", Dummy)
    found = known_costs("paper", 64)
    assert list(found) == list(MODELS)
    assert found["dummy"] == found["unet"] | {"reference": "nobody", "paper_parameters": None, "paper_gmacs": None}
    column = {cell.label: cell for cell in cells("forecasting", LAPTOP) if cell.scenario == random(0.10)}
    assert column["dummy + mask"].options == column["unet + mask"].options
