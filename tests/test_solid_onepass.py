"""`solid-onepass`: its loss is the fair CRPS, on block means of observed targets only."""

import torch

from solidfield.keys import torch_generator
from solidfield.models.solid_onepass import block_crps
from solidfield.scores.metrics import crps


def scene(members=5):
    generator = torch_generator(0)
    ensemble = torch.randn(members, 1, 1, 6, 8, generator=generator)
    values = torch.randn(1, 1, 6, 8, generator=generator)
    mask = torch.rand(1, 1, 6, 8, generator=generator) < 0.4
    return ensemble, values * mask, mask


def test_at_single_cells_it_is_the_fair_crps():
    ensemble, values, mask = scene()
    torch.testing.assert_close(block_crps(ensemble, values, mask, 1, 1.0), crps(ensemble, values, mask).float())


def test_a_block_mean_is_over_the_observed_cells_of_the_block():
    ensemble, values, mask = scene()
    coarse, truth = [], []
    for y in range(0, 6, 4):
        for x in range(0, 8, 4):
            cells = mask[0, 0, y : y + 4, x : x + 4]
            if cells.any():
                coarse.append(ensemble[:, 0, 0, y : y + 4, x : x + 4][:, cells].mean(-1))
                truth.append(values[0, 0, y : y + 4, x : x + 4][cells].mean())
    expected = crps(torch.stack(coarse, -1), torch.stack(truth))
    torch.testing.assert_close(block_crps(ensemble, values, mask, 4, 1.0), expected.float())


def test_values_and_members_off_the_targets_do_not_matter():
    ensemble, values, mask = scene()
    changed = torch.where(mask, ensemble, torch.tensor(7.0))
    for block in (1, 2, 4):
        assert torch.equal(
            block_crps(ensemble, values, mask, block, 0.95), block_crps(changed, values, mask, block, 0.95)
        )
