"""Large maps: parts are what the whole is, neighbourhoods say what all readings say, crops are cut from the map."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from shared import solid
from solidfield.errors import SolidError
from solidfield.fields import Source
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.models import build
from solidfield.models.crops import blended, rows_needed
from solidfield.models.kriging import Kriging
from solidfield.models.prior import LEAST_SPREAD, Prior
from solidfield.noise import MemberNoise
from solidfield.prediction import stream as streaming
from solidfield.prediction.maps import open_maps
from solidfield.prediction.predict import predict_examples
from solidfield.run import load
from solidfield.theory import copula as copulas
from solidfield.theory import nearby as near
from solidfield.training.loop import train
from solidfield.training.task import PairTask, rows_of_step
from solidfield.worlds.scenarios import Scenario
from tiny import TinyTruth, tiny_config, tiny_store

SIDE = 130
SMALL = {"base": 4, "multipliers": (1, 2), "features": 4, "dropout": 0.0}


def some_mask(shape: tuple[int, int], share: float) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) < share


@pytest.mark.parametrize("periodic", list(product([False, True], repeat=2)))
def test_a_tile_hears_the_nearest_readings_where_they_are(periodic):
    """Against brute force: which readings, and their steps from the tile, the short way round."""
    shape, size, most = (150, 140), 8, 12
    mask = some_mask(shape, 0.01)
    sites = mask.nonzero().double()
    parts = list(near.nearby(mask, periodic, size, most, slice(37, 90), slice(0, 140)))
    assert [part.rows.start for part in parts[1:]] == [part.rows.stop for part in parts[:-1]]
    for part in parts:
        for t in range(0, len(part.site), 5):
            first = torch.tensor([part.rows.start - part.skip[0] + t // part.across * size, t % part.across * size])
            step = sites + 0.5 - first - size / 2
            for axis in (0, 1):
                if periodic[axis]:
                    step[:, axis] = (step[:, axis] + shape[axis] / 2) % shape[axis] - shape[axis] / 2
            apart = step.norm(dim=1)
            heard = part.site[t][part.valid[t]]
            wanted = apart[apart <= near.REACH].sort().values[:most]
            torch.testing.assert_close(apart[heard], wanted)
            place = torch.stack([part.place[t] // near.BOX, part.place[t] % near.BOX], 1)[part.valid[t]]
            torch.testing.assert_close(place - near.BOX / 2 + 0.5, step[heard], check_dtype=False)


def test_tiles_unfold_to_the_part_of_the_map_that_was_asked_for():
    mask = some_mask((150, 140), 0.01)
    field = torch.arange(150.0 * 140).view(150, 140)
    padded = torch.nn.functional.pad(field, (0, 4, 0, 2))
    for part in near.nearby(mask, (False, False), 8, 4, slice(37, 90), slice(3, 131)):
        top = part.rows.start - part.skip[0]
        tiles = padded[top:].unfold(0, 8, 8).unfold(1, 8, 8)[: len(part.site) // part.across, : part.across]
        torch.testing.assert_close(part.unfold(tiles.reshape(-1, 64)), field[part.rows, part.columns])


@pytest.mark.parametrize("periodic", [(False, False), (True, True)])
def test_latents_given_all_readings_nearby_are_those_given_all_readings(periodic, monkeypatch):
    """Where a tile hears every reading, the neighbourhood is the dense solve."""
    grid = Grid((40, 36), periodic=periodic)
    copula = copulas.make_copula("conditioned", grid, 1)
    source = Source.of(torch.randn(1, 1, 40, 36), some_mask((40, 36), 0.1)[None, None], torch.zeros(1))
    with torch.no_grad():
        dense = copula(source, MemberNoise(0, [0], range(3)))
        monkeypatch.setattr(copulas, "DENSE", 0)
        local = copula(source, MemberNoise(0, [0], range(3)))
    torch.testing.assert_close(local, dense, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("periodic", "rows"), [((False, False), slice(0, 150)), ((True, True), slice(30, 100))])
def test_crops_blend_to_the_map_they_were_cut_from(periodic, rows):
    """Weights are a partition of one: an encoder that says what it sees gives the map back."""
    grid = Grid((150, 170), periodic=periodic)
    field = torch.randn(2, 3, 150, 170)
    needed = rows_needed(grid, rows)
    torch.testing.assert_close(blended(lambda x: x, field[:, :, needed], grid, rows), field[:, :, rows])


def by_hand(kriging: Kriging, batches: object) -> None:
    """A covariance that need not be fitted."""
    y, x = (torch.minimum(torch.arange(n), n - torch.arange(n)).double() for n in kriging.kernel.shape[1:])
    kriging.kernel[0] = torch.exp(-torch.hypot(y[:, None], x) / 20)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    truth = TinyTruth.make(count=6, frames=3, size=SIDE)
    store = tiny_store(folder / "pairs", truth, leads=(0,), scenario=Scenario(amount=0.01))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kriging, "fit", by_hand)
        patch.setattr(copulas.Copula, "fit", lambda *_: [])
        train(build("solid", store.spec(), SMALL), store, folder / "run", tiny_config(steps=2, warmup=1), options=SMALL)
    return load(folder / "run"), store


def test_parts_of_a_map_are_the_whole(run):
    """Laws to 1e-5, members to 1e-4 of the spread, whichever rows and members are drawn together."""
    opened, store = run
    source = opened.scaling.standardise(store.batch(store.split("test")[:1]).source)
    laws, whole = opened.model.encode(source), opened.model.sample(source, 4, MemberNoise(0, [0], range(4)))
    spread = float(whole.std(0).mean())
    for rows, members in ((slice(0, 40), range(4)), (slice(40, SIDE), range(1, 3))):
        for part, law in zip(opened.model.encode(source, rows), laws, strict=True):
            torch.testing.assert_close(part, law[..., rows, :], atol=1e-5, rtol=0)
        drawn = opened.model.drawing(source, rows)(len(members), MemberNoise(0, [0], members))
        wanted = whole[members.start : members.stop, ..., rows, :]
        torch.testing.assert_close(drawn, wanted, atol=1e-4 * spread, rtol=0)


def test_a_killed_prediction_goes_on_and_is_what_it_would_have_been(run, tmp_path, monkeypatch):
    """In pieces, interrupted, it equals the ensemble drawn at once, in a few files."""
    opened, store = run
    asked = (opened, store, store.split("test")[:1])
    whole = predict_examples(*asked, members=10)
    monkeypatch.setattr(streaming, "SHARD", (4, 48))
    monkeypatch.setattr(streaming, "CHUNK", (4, 48))
    options = {"members": 10, "out": tmp_path / "maps.zarr", "max_memory": 1e-3}
    done, real = [], streaming.draw_piece

    def killed(*words):
        if len(done) == 4:
            raise SolidError("killed")
        done.append(words[-1])
        return real(*words)

    monkeypatch.setattr(streaming, "draw_piece", killed)
    with pytest.raises(SolidError, match="killed"):
        predict_examples(*asked, **options)
    assert not (tmp_path / "maps.zarr").exists()
    monkeypatch.setattr(streaming, "draw_piece", lambda *words: done.append(words[-1]) or real(*words))
    maps = predict_examples(*asked, **options)
    assert len(done) == len(set(done)) == 9  # 3 bands x 3 parts of the members, none twice
    for name in ("u", "u_mean", "u_std", "u_q05", "u_q75"):
        np.testing.assert_allclose(maps[name], whole[name], atol=2e-3, err_msg=name)
        assert maps[name].dims == whole[name].dims
        assert maps[name].attrs == whole[name].attrs
    np.testing.assert_array_equal(maps["observed"], whole["observed"])
    assert sum(file.is_file() for file in (tmp_path / "maps.zarr").rglob("*")) < 1000


def test_the_prior_of_a_large_map_is_kriging_by_the_readings_nearby():
    """Twenty readings that every tile of some rows hears: mean and variance by the formula."""
    prior = Prior(Spec(Grid((150, 160))))
    by_hand(prior.kriging, [])
    mask = torch.zeros(1, 1, 150, 160, dtype=torch.bool)
    mask[..., 50:80, 70:100] = some_mask((30, 30), 0.02)
    values = torch.randn(mask.shape)
    mean, std = prior(Source.of(values, mask, torch.zeros(1)), slice(60, 70))
    site = mask[0, 0].nonzero().double()
    cells = torch.cartesian_prod(torch.arange(60.0, 70), torch.arange(80.0, 90)).double()
    k = torch.exp(-torch.cdist(site, site) / 20) + 1e-5 * torch.eye(len(site))
    weight = torch.linalg.solve(k, across := torch.exp(-torch.cdist(site, cells) / 20))
    wanted = (weight.T @ values[mask].double()).view(10, 10)
    torch.testing.assert_close(mean[0, 0, :, 80:90].double(), wanted, atol=1e-4, rtol=0)
    variance = (1 - (weight * across).sum(0)).clamp_min(0).view(10, 10) + LEAST_SPREAD**2
    torch.testing.assert_close(std[0, 0, :, 80:90].double(), variance.sqrt(), atol=1e-4, rtol=0)


def test_crops_are_cut_from_the_map_around_a_target(run):
    """Every crop has a target; its readings are the map's there, and so is what surrounds it, across the seams."""
    opened, store = run
    task = PairTask.of(store, tiny_config(thin=0.0), opened.scaling)
    crops = task.batch(3, 0, 1, opened.model)
    chosen = store.split("train")[rows_of_step(len(store.split("train")), 4, 3, 0, 0, 1)]
    whole = opened.scaling.standardise(store.batch(chosen))
    around = crops.source.around
    assert crops.source.values.shape[-2:] == (64, 64)
    assert crops.target.mask.flatten(1).any(1).all()
    for b, (y, x) in enumerate(around.corner.tolist()):
        rows, columns = (torch.arange(at, at + 64) % SIDE for at in (y, x))
        wide = [torch.arange(at - 32, at + 96) % SIDE for at in (y, x)]
        for ours, theirs in ((crops.source.values, whole.source.values), (crops.target.values, whole.target.values)):
            torch.testing.assert_close(ours[b], theirs[b][:, rows[:, None], columns])
        torch.testing.assert_close(around.values[b], whole.source.values[b][:, wide[0][:, None], wide[1]])


def test_the_command_writes_a_large_map_while_it_draws(run, tmp_path):
    opened, store = run
    out = tmp_path / "maps.zarr"
    solid("predict", opened.path, store.path, out, "--members", 2, "--scenes", 1, "--memory", 1)
    maps = open_maps(out)
    source = store.batch(maps["example"].values).source
    np.testing.assert_array_equal(maps["u"].values[1, 0, 0][source.mask[0, 0]], source.values[source.mask])
    assert np.isfinite(maps["u"]).all()
    with pytest.raises(SolidError, match="while it is drawn"):
        solid("predict", opened.path, store.path, tmp_path / "again.zarr", "--above", 1)
