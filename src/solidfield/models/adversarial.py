"""The family of the adversarial game, for targets known at a few cells only.

A generator makes a whole field from a latent z and the sensors; a discriminator tells measured targets from
made ones. It judges pairs under identical masks and sees values on M_o alone (AmbientGAN's idea: compare what
a sensor would see),

    real  r = [M_o u,     M_o, X_c, M_i]          fake  f = [M_o G(z, c), M_o, X_c, M_i]

    L_D = softplus(D(f)) + softplus(-D(r)) + gamma / 2 |grad_u D(r)|^2
    L_G = softplus(-D(f)) + beta * mean over M_o of |G(z, c) - u|

(non-saturating loss, R1 penalty on the value channel of the real pair: it is zero off M_o by construction).
The penalty is taken over a few rows of each batch, drawn by the step's generator, instead of over whole
batches at every 16th step: the expectation and about the cost are the same, the loss stays a function of what
it is given, and clipping the gradient does not swallow a rare large term. beta = 0 is the pure game.

The condition is c = E([X_c (, M_i), covariates]). With `spatial` the generator also reads the encoder's
feature maps through projections that start at zero; without it the sensors speak through the style alone. The
lead is not an input.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from ..fields import Pair, Source, restrict
from ..forecast import Forecaster, Objective, Spec
from ..nn.style import SPREAD_GROUP, ConditionEncoder, Discriminator
from ..noise import Noise
from ..theory.objective import masked_mean
from .regression import input_channels, input_width, known_channels

BETAS = (0.0, 0.99)  # of Adam, as in both references: each side's opponent moves, so old gradients mislead
LAZY = 16  # one row in this many is penalised, at least a group of the minibatch spread


class Adversarial(Forecaster):
    """A generator and its judge; a model of the family says what the generator is."""

    family = "adversarial"
    mask_channel: bool

    def __init__(
        self,
        spec: Spec,
        mask_channel: bool,
        style: int,  # size of z and of c
        encoder: Sequence[int],  # channels of the condition encoder's levels
        judge: int,  # channels of the discriminator
        gamma: float,
        beta: float,
    ):
        super().__init__(spec)
        self.mask_channel, self.style, self.gamma, self.beta = mask_channel, style, gamma, beta
        shape = spec.grid.shape
        self.encoder = ConditionEncoder(input_width(spec, mask_channel), encoder, style, shape)
        self.discriminator = Discriminator(4 * spec.channels + spec.covariates, judge, shape)
        self.generator: nn.Module  # (z, c, features) -> (B, C, H, W)

    def objectives(self) -> list[Objective]:
        made = [*self.encoder.parameters(), *self.generator.parameters()]
        return [
            Objective("discriminator", self.discriminator_loss, list(self.discriminator.parameters()), BETAS),
            Objective("generator", self.loss, made, BETAS),
        ]

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        """The generator's side of the game."""
        source, target = pair.source, pair.target
        made = self._make(source, generator)
        fixed = {name: weight.detach() for name, weight in self.discriminator.named_parameters()}
        logits = functional_call(self.discriminator, fixed, (self._judged(pair, made),))
        loss = F.softplus(-logits).mean()
        if self.beta:
            loss = loss + self.beta * masked_mean((made - target.values).abs(), target.mask, source.mask)
        return loss

    def discriminator_loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        """The judge's side, with its penalty."""
        with torch.no_grad():
            made = self._make(pair.source, generator)
        loss = (
            F.softplus(self.discriminator(self._judged(pair, made))).mean()
            + F.softplus(-self.discriminator(self._judged(pair, pair.target.values))).mean()
        )
        if self.gamma:
            batch = len(pair)
            count = min(batch, max(SPREAD_GROUP, batch // LAZY))
            rows = torch.randperm(batch, generator=generator)[:count].to(made.device)
            loss = loss + 0.5 * self.gamma * self.slope(pair, rows).square().sum(dim=(1, 2, 3)).mean()
        return loss

    def slope(self, pair: Pair, rows: Tensor) -> Tensor:  # (R, C, H, W)
        """grad_u D(r) of some rows of the batch, differentiable once more."""
        part = Pair(pair.source[rows], type(pair.target)(pair.target.values[rows], pair.target.mask[rows]))
        values = part.target.values.detach().requires_grad_()
        logits = self.discriminator(self._judged(part, values))
        return torch.autograd.grad(logits.sum(), values, create_graph=True)[0]

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        c, features = self.encoder(input_channels(source, self.spec, self.mask_channel))
        latents = noise((self.style,))  # (K, B, Z)
        return torch.stack([self.generator(z, c, features) for z in latents])

    def _make(self, source: Source, generator: torch.Generator) -> Tensor:  # (B, C, H, W)
        z = torch.randn(len(source), self.style, generator=generator).to(source.values)
        return self.generator(z, *self.encoder(input_channels(source, self.spec, self.mask_channel)))

    def _judged(self, pair: Pair, values: Tensor) -> Tensor:  # (B, 4 C + E, H, W)
        """The masked pair: nothing of `values` off M_o passes."""
        source, m_o = pair.source, pair.target.mask
        seen = [restrict(values, m_o), m_o.to(values.dtype), source.values, source.mask.to(values.dtype)]
        return torch.cat([*seen, known_channels(source, self.spec)], dim=1)
