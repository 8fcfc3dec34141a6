"""OFormer: linear attention from sensors to any place, with rotary positions.

Reference: Li, Meidani, Barati Farimani, "Transformer for partial differential equations' operator learning"
(2023), in the size of the paper's table: 2,662,849 parameters, of which the 288 numbers of the fixed Fourier
matrix.

    attention   out = q (k^T v) / N, k and v normalised over the tokens, q and k turned by their places;
                no softmax, so the cost is linear in the number of tokens (Galerkin attention)
    encoder     sensors (values, y, x) become tokens; six layers of
                x = LN(x); x = x + attention(x); x = LN(x); x = x + GEGLU(x)
    decoder     random Fourier features of the query's place, an MLP; one attention of queries to tokens and a
                GEGLU, both with residuals; a three-layer head that sees the place again

Where we depart from it: lists of sensors vary in length, so norms and means over tokens run over real tokens
only (one token is normalised to zero, no token adds nothing, and the answer is then a function of place
alone); masked squared error instead of the relative L2 norm; the Fourier matrix is a function of its name.
`mask_channel` tells each sensor which of several variables it measured; with one variable a sensor is its
own mask and nothing is added. Covariates are features of sensors, and of queries through the head.
Learning rate: 3e-4 with one cycle at the paper's size, 1e-3 at laptop size (3e-3 is too high).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..fields import Source
from ..forecast import Spec
from ..nn.attention import GatedFeedForward, join_heads, split_heads
from ..nn.coords import GaussianFeatures, rotary
from .regression import PointRegression

DECODER_SCALE = 16.0  # of the rotary positions, in units of the grid's resolution; the reference's value


class OFormer(PointRegression):
    name = "oformer"
    reference = "Li et al., Transformer for partial differential equations' operator learning, TMLR 2023"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"width": 16, "latent": 16, "layers": 2, "heads": 2},
        "laptop": {"width": 72, "latent": 96, "layers": 4, "heads": 4},
        "paper": {"width": 144, "latent": 288, "layers": 6, "heads": 4},
    }

    def __init__(
        self,
        spec: Spec,
        *,
        mask_channel: bool = False,
        width: int = 144,  # of the encoder's tokens, and of its single head
        latent: int = 288,  # of the decoder's tokens, and of each of its heads
        layers: int = 6,
        heads: int = 4,  # of the decoder
        frequency: float = 0.125,  # of the queries' features, in waves a cell: the reference's 8 at 64 cells
        dropout: float = 0.05,
    ):
        super().__init__(spec, mask_channel)
        resolution = max(spec.grid.shape)
        scales = [resolution, resolution / 4, *[1.0] * layers][:layers]
        self.embed = nn.Linear(self.token_width + 2, width, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(EncoderLayer(width, resolution * scale) for scale in scales)
        self.to_latent = nn.Linear(width, latent, bias=False)
        self.query = nn.Sequential(
            GaussianFeatures(self.name, 2, latent // 2, 2 * math.pi * frequency * resolution),
            nn.Linear(latent, latent, bias=False),
            nn.GELU(),
            nn.Linear(latent, latent, bias=False),
        )
        self.cross = GalerkinCross(latent, heads, resolution * DECODER_SCALE)
        self.feed = GatedFeedForward(latent, factor=1)
        self.head = nn.Sequential(
            nn.Linear(latent + 2 + spec.covariates, latent, bias=False),
            nn.GELU(),
            nn.Linear(latent, latent // 2, bias=False),
            nn.GELU(),
            nn.Linear(latent // 2, spec.channels),
        )

    def forecast(
        self, source: Source, cells: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:  # (B, C, H, W)
        sensors, queries = self.tokens(source, cells)
        x = self.dropout(self.embed(torch.cat([sensors.features, sensors.positions], dim=-1)))
        for layer in self.encoder:
            x = layer(x, sensors.positions, sensors.keys)
        x = self.to_latent(x)
        z = self.query(queries.positions)
        z = z + self.cross(z, queries.positions, x, sensors.positions, sensors.keys)
        z = z + self.feed(z)
        return queries.to_grid(self.head(torch.cat([z, queries.positions, queries.features], dim=-1)))


class EncoderLayer(nn.Module):
    """The norm's output replaces x before the residual: neither a pre-norm nor a post-norm block."""

    def __init__(self, dim: int, scale: float, dropout: float = 0.03):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.feed = GatedFeedForward(dim, factor=1, dropout=dropout)
        self.scale = scale
        near_identity(self.to_qkv.weight[:dim])

    def forward(
        self,
        x: Tensor,  # (B, N, dim)
        positions: Tensor,  # (B, N, 2)
        keys: Tensor,  # (B, N) bool
    ) -> Tensor:  # (B, N, dim)
        x = self.norms[0](x)
        q, k, v = (t[:, None] for t in self.to_qkv(x).chunk(3, dim=-1))  # one head: each (B, 1, N, dim)
        x = x + galerkin_attention(q, k, v, positions, positions, keys, self.scale).squeeze(1)
        x = self.norms[1](x)
        return x + self.feed(x)


class GalerkinCross(nn.Module):
    """Queries read tokens, by heads that are each as wide as a token."""

    def __init__(self, dim: int, heads: int, scale: float):
        super().__init__()
        self.heads, self.scale = heads, scale
        self.to_q = nn.Linear(dim, heads * dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * heads * dim, bias=False)
        self.to_out = nn.Linear(heads * dim, dim)
        for block in (*self.to_q.weight.split(dim), *self.to_kv.weight.split(dim)):
            near_identity(block)

    def forward(
        self,
        z: Tensor,  # (B, N_q, dim)
        z_positions: Tensor,  # (B, N_q, 2)
        x: Tensor,  # (B, N, dim)
        x_positions: Tensor,  # (B, N, 2)
        keys: Tensor,  # (B, N) bool
    ) -> Tensor:  # (B, N_q, dim)
        q = split_heads(self.to_q(z), self.heads)
        k, v = (split_heads(t, self.heads) for t in self.to_kv(x).chunk(2, dim=-1))
        return self.to_out(join_heads(galerkin_attention(q, k, v, z_positions, x_positions, keys, self.scale)))


def galerkin_attention(
    q: Tensor,  # (B, heads, N_q, d)
    k: Tensor,  # (B, heads, N, d)
    v: Tensor,  # (B, heads, N, d)
    q_positions: Tensor,  # (B, N_q, 2)
    k_positions: Tensor,  # (B, N, 2)
    keys: Tensor,  # (B, N) bool
    scale: float,
) -> Tensor:  # (B, heads, N_q, d)
    """q (k^T v) / N over the real tokens; zeros if there is none."""
    k = rotary(normalise_tokens(k, keys), k_positions, scale)
    v = normalise_tokens(v, keys)
    count = keys.sum(1).clamp(min=1)[:, None, None, None]
    return rotary(q, q_positions, scale) @ (k.transpose(-1, -2) @ v / count)


def normalise_tokens(
    x: Tensor,  # (B, heads, N, d)
    keys: Tensor,  # (B, N) bool
    eps: float = 1e-5,
) -> Tensor:  # (B, heads, N, d)
    """Instance norm: mean 0, variance 1 over the real tokens, per head and channel; padded slots are zero."""
    real = keys[:, None, :, None]
    count = real.sum(2, keepdim=True).clamp(min=1)
    mean = torch.where(real, x, 0.0).sum(2, keepdim=True) / count
    centred = torch.where(real, x - mean, 0.0)
    variance = centred.square().sum(2, keepdim=True) / count
    return centred * (variance + eps).rsqrt()


@torch.no_grad()
def near_identity(block: Tensor) -> None:  # (d, d), changed in place
    """Start as an orthogonal matrix plus the identity, both divided by d."""
    dim = block.shape[0]
    block.copy_((nn.init.orthogonal_(torch.empty(dim, dim)) + torch.eye(dim)) / dim)
