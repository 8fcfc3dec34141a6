"""The encoder of sets: attention over the readings nearest to a target in space and time.

Every known reading is a token that says where and when it stands relative to the target, what it reads, what kriging
makes of it, and how far it lies from what the others say; the target is a token of its own with the kriging law and the
calendar. Two layers of attention later the target's token is the feature vector of its law. Where readings fade out
(`neighbours.py`) so does the attention to them, or a map would have an edge wherever one of them goes.

Nothing says which cell it is: what is learned of one place holds at every other, also where no sensor ever stood. Yet
the pattern of its neighbours would give a training place away, and the network would learn it by heart. So training
blurs what it sees of a place that is asked about as if it were unread (`Blur`): its surroundings are zoomed, turned and
mirrored at random, kriging weights told with an error.

Several networks of different first weights read the same readings, and the target's features are those of all of them:
what each of them has learned by heart is its own, and the pool of their laws (`theory/mixture_law.py`) is the better
for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..theory.spacetime import Known, Laws

TOKEN, TARGET = 12, 5  # numbers that describe a reading, and a target, besides calendar and what is told of places
FLAT = 0.05  # standardised: below such a spread, deviations are not divided by it any further
TOGETHER = 128  # targets that a network reads in one piece: with all of some thousand it takes twice as long
ZOOM, VAGUE = 0.5, 0.5  # standard deviations of a blur: of the logarithm of its scale, and of each weight


@dataclass(frozen=True)
class Blur:
    """What keeps training places from being known by their neighbours; see the head of this file."""

    rows: Tensor  # (B,) bool: which targets may be blurred,
    generator: torch.Generator
    share: float = 1.0  # ... and with what chance each is: among many places none is learned by heart

    def of(self, away: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:  # (B, k, 2), (B, k) -> the same
        """Steps in space, and kriging weights, as training tells them."""

        def draw(*shape: int) -> Tensor:
            return torch.randn(shape, generator=self.generator).to(away.device)

        zoom, angle = (ZOOM * draw(len(away), 1)).exp(), torch.atan2(draw(len(away), 1), draw(len(away), 1))
        y, x = away[..., 0], draw(len(away), 1).sign() * away[..., 1]
        turned = torch.stack([angle.cos() * y - angle.sin() * x, angle.sin() * y + angle.cos() * x], -1)
        told = weight * (VAGUE * draw(*weight.shape)).exp()
        rows = (self.rows & (torch.rand(len(away), generator=self.generator).to(away.device) < self.share))[:, None]
        return torch.where(rows[..., None], zoom[..., None] * turned, away), torch.where(rows, told, weight)


class Layer(nn.Module):
    """Attention and a small network, each added to what it reads."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.each = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(
        self,
        x: Tensor,  # (B, 1 + k, width), the target first
        seen: Tensor,  # (B, 1, 1, 1 + k) what is added to the logarithms of attention
        target_only: bool,
    ) -> Tensor:  # the same, or (B, 1, width)
        told, (weight, bias), width = self.before(x), (self.mix.weight, self.mix.bias), x.shape[2]
        x = x[:, :1] if target_only else x
        query = F.linear(told[:, : x.shape[1]], weight[:width], bias[:width])
        query, key, value = map(self._heads, (query, *F.linear(told, weight[width:], bias[width:]).chunk(2, -1)))
        heard = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        x = x + self.out(heard.transpose(1, 2).flatten(2))
        return x + self.each(self.between(x))

    def _heads(self, x: Tensor) -> Tensor:  # (B, n, width) -> (B, heads, n, width / heads)
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Network(nn.Module):
    """Attention of a target to its readings, from what describes them to features."""

    def __init__(self, reading: int, target: int, features: int, layers: int, heads: int):
        super().__init__()
        self.reading, self.target = _embed(reading, features), _embed(target, features)
        self.layers = nn.ModuleList(Layer(features, heads) for _ in range(layers))
        self.last = nn.LayerNorm(features)

    def forward(
        self,
        readings: Tensor,  # (B, k, numbers of a reading)
        target: Tensor,  # (B, numbers of a target)
        heard: Tensor,  # (B, k) in [0, 1]: how much of its attention each reading gets
    ) -> Tensor:  # (B, features)
        x = torch.cat([self.target(target)[:, None], self.reading(readings)], 1)
        seen = F.pad(heard, (1, 0), value=1.0).log()[:, None, None]
        for depth, layer in enumerate(self.layers):
            x = layer(x, seen, target_only=depth == len(self.layers) - 1)
        return self.last(x[:, 0])


class SetEncoder(nn.Module):
    """Features of targets from their nearest readings, those of several networks side by side."""

    def __init__(
        self,
        features: int = 48,  # of each network
        layers: int = 2,
        heads: int = 4,
        calendar: int = 0,
        told: int = 0,  # numbers of a place: what is usual there, and static fields
        channels: int = 1,
        networks: int = 1,
    ):
        super().__init__()
        self.named = channels if channels > 1 else 0  # of several variables a token says which it is
        reading, target = TOKEN + told + self.named, TARGET + calendar + told + self.named
        self.networks = nn.ModuleList(Network(reading, target, features, layers, heads) for _ in range(networks))

    def forward(
        self,
        known: Known,
        law: Laws,
        lengths: Tensor,  # (3,) typical steps between readings: frames, rows, columns
        variance: Tensor,  # (B, 1) of the field under the prior
        calendar: Tensor,  # (B, D)
        told: Tensor,  # (B, S) of the target's place
        told_known: Tensor,  # (B, k, S) of the readings' places, relative to the target's
        blur: Blur | None = None,  # in training
    ) -> Tensor:  # (B, networks * features)
        valid = known.valid
        step = known.offset / lengths
        frames, there, weight = step[..., 0], step[..., 1:], law.weight
        if blur is not None:
            there, weight = blur.of(there, weight)
        away = there.norm(dim=-1)
        toward = there * (away.log1p() / away.clamp_min(1e-6))[..., None]  # far readings stay in range
        trust = variance / (variance + known.errors)  # 1: exact; a reading with a large error says little
        apart = trust * (known.values - law.mean[:, None]) / law.scale[:, None].clamp_min(FLAT)
        which, whose = known.values.new_zeros(*valid.shape, 0), law.mean.new_zeros(len(valid), 0)
        if self.named and known.channel is not None and known.asked is not None:
            which, whose = (F.one_hot(c, self.named).to(apart.dtype) for c in (known.channel, known.asked))
            mine = known.channel == known.asked[:, None]
            apart = torch.where(mine, apart, 0.0)  # of another variable it says nothing
        token = torch.stack(
            [
                trust * known.values,
                0.3 * apart,
                3 * weight,
                law.covariance / variance,
                toward[..., 0],
                toward[..., 1],
                (1 + 10 * away).log(),
                frames / 6,
                frames.sign() * frames.abs().log1p(),
                (away == 0).to(step.dtype),
                (1 - trust).sqrt(),
                0.3 * law.against,
            ],
            -1,
        )
        readings = torch.cat([token, told_known, which], -1) * valid[..., None]
        when = torch.where(valid, frames.abs(), 24.0).amin(1).clamp(max=24)
        about = torch.stack(
            [law.mean, law.std.log(), (law.scale / law.std).log(), valid.float().mean(1), when.log1p()], -1
        )
        target = torch.cat([about, calendar, told, whose], -1)
        heard = valid.to(target.dtype) if known.heard is None else valid * known.heard
        return torch.cat([_in_pieces(network, readings, target, heard) for network in self.networks], -1)


def _in_pieces(network: nn.Module, *told: Tensor) -> Tensor:  # (B, ...) each -> (B, features)
    """The features of many targets at once; without gradients piece by piece, which a processor's cache holds."""
    whole = torch.is_grad_enabled() or told[0].device.type != "cpu"
    pieces = [told] if whole else zip(*(part.split(TOGETHER) for part in told), strict=True)
    return torch.cat([network(*piece) for piece in pieces])


def _embed(count: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(count, width), nn.SiLU(), nn.Linear(width, width))
