"""`solid-onepass`: the contract of every model; its loss is the fair CRPS, on block means of observed targets only."""

import pytest
import torch

import contract
from solidfield.keys import torch_generator
from solidfield.metrics import crps
from solidfield.models.solid_onepass import SolidOnepass, block_crps


@pytest.mark.parametrize(
    "law",
    [
        contract.mixed_batch_is_finite,
        contract.blind_off_the_masks,
        contract.same_input_same_output,
        contract.members_are_their_own,
        contract.round_trip,
        contract.reads_channels_and_covariates,
        contract.every_parameter_learns,
    ],
)
def test_contract(law):
    law(SolidOnepass)


@pytest.mark.parametrize(("shape", "wraps"), [((32, 32), True), ((21, 20), False)])
def test_finite_on_any_grid(shape, wraps):
    contract.finite_on(SolidOnepass, shape, wraps)


def test_learns_an_easy_world():
    contract.learns_an_easy_world(SolidOnepass, steps=80, lr=5e-3)


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
