"""Muon: orthogonal steps for matrices, AdamW for all else."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from solidfield.training.muon import PACE, Muon, orthogonal


@pytest.mark.parametrize("shape", [(12, 12), (9, 40), (48, 11)])
def test_orthogonal_keeps_directions_and_evens_their_sizes(shape: tuple[int, int]):
    """u = U S V^T becomes U S' V^T: the same directions, singular values of 0.02 to 1 all near 1."""
    generator = torch.Generator().manual_seed(0)
    u, _, vt = torch.linalg.svd(torch.randn(3, *shape, generator=generator), full_matrices=False)
    sizes = torch.logspace(0, -1.7, min(shape))
    found = orthogonal((u * sizes) @ vt)
    evened = u.mT @ found @ vt.mT
    diagonal = evened.diagonal(dim1=1, dim2=2)
    assert float(diagonal.min()) > 0.6
    assert float(diagonal.max()) < 1.3
    assert float((evened - torch.diag_embed(diagonal)).abs().max()) < 1e-3


def test_a_step_of_a_matrix_knows_nothing_of_the_size_of_its_gradient():
    """Its root mean square is about that of a typical step of AdamW, PACE learning rates."""
    gradient, steps = torch.randn(32, 64, generator=torch.Generator().manual_seed(1)), []
    for size in (1e-4, 1.0, 1e6):
        p = nn.Parameter(torch.zeros(32, 64))
        p.grad = size * gradient
        Muon([p], lr=0.1, betas=(0.9, 0.999), weight_decay=0.0).step()
        steps.append(p.detach())
    assert float(steps[0].square().mean().sqrt()) == pytest.approx(0.1 * PACE, rel=0.25)
    torch.testing.assert_close(steps[0], steps[1], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(steps[2], steps[1], rtol=1e-3, atol=1e-5)


def test_vectors_are_moved_by_adamw():
    generator = torch.Generator().manual_seed(2)
    mine, theirs = (nn.Parameter(torch.linspace(-1, 1, 7)) for _ in range(2))
    settings = {"lr": 0.03, "betas": (0.9, 0.99), "weight_decay": 0.1}
    optimisers = Muon([mine], **settings), torch.optim.AdamW([theirs], **settings)
    for _ in range(5):
        mine.grad = torch.randn(7, generator=generator)
        theirs.grad = mine.grad.clone()
        for optimiser in optimisers:
            optimiser.step()
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_matrices_are_moved_as_by_torch():
    """torch's own Muon works in half precision: the same steps to three digits."""
    generator = torch.Generator().manual_seed(3)
    mine, theirs = (nn.Parameter(torch.eye(16, 24)) for _ in range(2))
    ours = Muon([mine], lr=0.02, betas=(0.9, 0.999), weight_decay=0.1)
    other = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        mine.grad = torch.randn(16, 24, generator=generator)
        theirs.grad = mine.grad.clone()
        ours.step()
        other.step()
    moved = float((mine - torch.eye(16, 24)).detach().abs().max())
    assert float((mine - theirs).detach().abs().max()) < 0.02 * moved


def test_alike_matrices_do_not_mix():
    """Matrices of one shape are orthogonalised together, each by itself."""
    generator = torch.Generator().manual_seed(4)
    gradients = [torch.randn(8, 8, generator=generator) for _ in range(3)]
    together, alone = ([nn.Parameter(torch.zeros(8, 8)) for _ in range(3)] for _ in range(2))
    settings = {"lr": 0.1, "betas": (0.9, 0.999), "weight_decay": 0.0}
    optimisers = [Muon(together, **settings), *(Muon([p], **settings) for p in alone)]
    for p, gradient in zip([*together, *alone], 2 * gradients, strict=True):
        p.grad = gradient.clone()
    for optimiser in optimisers:
        optimiser.step()
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b)
