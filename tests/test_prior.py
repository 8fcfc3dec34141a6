"""The prior of a query is kriging, for a batch at once, whole or in tiles."""

import pytest
import torch

from solidfield.errors import SolidError
from solidfield.fields import Source
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.models import build, prior
from solidfield.models.prior import LEAST_SPREAD, Prior
from test_kriging import BOX, SIDE, advected, set_up, sparse, world


def fitted(spec: Spec) -> Prior:
    made = Prior(spec)
    made.kriging = set_up(advected(), spec.grid)
    return made


def both_leads(count: int, share: float) -> Source:
    source = sparse(*world(count, advected()), share=share).source
    lead = torch.arange(count) % 2
    mask = source.mask.clone()
    mask[-1] = False  # the last query has no reading at all
    return Source.of(source.values, mask, lead.float())


def test_it_is_krigings_law_query_by_query():
    made, source = fitted(Spec(BOX)), both_leads(6, 0.12)
    mean, std = made(source)
    exact_mean, exact_std = made.kriging.posterior(source)
    torch.testing.assert_close(mean, exact_mean, atol=2e-3, rtol=0)
    torch.testing.assert_close(std, (exact_std**2 + LEAST_SPREAD**2).sqrt(), atol=2e-3, rtol=0)


@pytest.mark.parametrize("tile", [5, 8])  # 5 does not divide the grid
def test_tiles_that_see_every_reading_change_nothing(tile, monkeypatch):
    made, source = fitted(Spec(BOX)), both_leads(4, 0.2)
    whole = made(source)
    monkeypatch.setattr(prior, "MOST", 10)
    monkeypatch.setattr(prior, "TILE", tile)
    monkeypatch.setattr(prior, "NEAREST", SIDE**2)
    for part, tiled in zip(whole, made(source), strict=True):
        torch.testing.assert_close(tiled, part, atol=1e-4, rtol=0)


def test_the_nearest_readings_tell_nearly_all(monkeypatch):
    made, source = fitted(Spec(BOX)), both_leads(4, 0.4)
    whole = made(source)
    monkeypatch.setattr(prior, "MOST", 10)
    mean, std = made(source)
    assert float((mean - whole[0]).square().mean().sqrt()) < 0.1 * float(whole[1].mean())
    assert bool((std >= whole[1] - 1e-3).all())  # fewer readings, less certainty


def test_a_reading_further_than_the_nearest_tile_wraps_around_where_the_grid_does():
    value = torch.zeros(1, 1, SIDE, SIDE)
    value[..., 0, 0] = 1.0
    source = Source.of(value, value > 0, torch.zeros(1))
    mean, _ = fitted(Spec(BOX))(source)
    assert float(mean[0, 0, -1, -1]) == pytest.approx(float(mean[0, 0, 1, 1]), abs=1e-5)
    assert float(mean[0, 0, -1, -1]) > 0.1


def test_an_untrained_solid_is_centred_on_kriging_and_a_trained_prior_is_kept(tmp_path):
    pair = sparse(*world(64, advected()))
    model = build("solid", Spec(Grid.box(SIDE, SIDE, 1.0)), {"size": "smoke"}).eval()
    model.prepare([pair])
    again = build("solid", Spec(Grid.box(SIDE, SIDE, 1.0)), {"size": "smoke"}).eval()
    again.load_state_dict(model.state_dict())
    _, location, scale = again.encode(pair.source)
    mean, std = model.prior.kriging.posterior(pair.source[:4])
    torch.testing.assert_close(location[:4], mean, atol=5e-3, rtol=0)
    torch.testing.assert_close(scale[:4], (std**2 + LEAST_SPREAD**2).sqrt(), atol=5e-3, rtol=0)


def test_a_filling_densifies_what_the_network_sees_and_an_unknown_one_is_refused():
    source = both_leads(2, 0.2)
    none, nearest = (build("solid-paper", Spec(BOX), {"size": "smoke", "fill": f}) for f in ("none", "nearest"))
    nearest.load_state_dict(none.state_dict())
    for p in none.net.head.parameters():
        torch.nn.init.ones_(p)
    nearest.load_state_dict(none.state_dict())
    x, tau = torch.zeros(2, 1, SIDE, SIDE), torch.full((2,), 10.0)
    assert not torch.equal(none.eval().denoise(x, source, tau), nearest.eval().denoise(x, source, tau))
    full = Source.of(source.values, torch.ones_like(source.mask), source.lead)  # nothing left to fill
    torch.testing.assert_close(none.denoise(x, full, tau), nearest.denoise(x, full, tau))
    with pytest.raises(SolidError, match="no filling is called 'spline'"):
        build("solid", Spec(BOX), {"fill": "spline"})
