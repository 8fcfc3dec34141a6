"""Attention over lists of tokens of any length, with a mask of keys that may be empty.

    attention(q, k, v) = softmax(q k^T / sqrt(d)) v    over the keys that are real; none gives exact zeros.

Blocks are pre-norm: a branch normalises its own input (and its context) and the caller adds it to what it
had.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def masked_attention(
    q: Tensor,  # (B, heads, N_q, d)
    k: Tensor,  # (B, heads, N_k, d)
    v: Tensor,  # (B, heads, N_k, d)
    keys: Tensor | None = None,  # (B, N_k) bool
) -> Tensor:  # (B, heads, N_q, d)
    if keys is None:
        return F.scaled_dot_product_attention(q, k, v)
    some = keys.any(1)  # (B,)
    readable = keys | ~some[:, None]  # a softmax over nothing is NaN: read anything, then discard it
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=readable[:, None, None, :])
    return torch.where(some[:, None, None, None], out, 0.0)


def chosen_attention(
    q: Tensor,  # (B, heads, N_q, d)
    k: Tensor,  # (B, heads, N_k, d)
    v: Tensor,  # (B, heads, N_k, d)
    choice: Tensor,  # (B, N_q, S) the S keys that each query reads
) -> Tensor:  # (B, heads, N_q, d)
    """Attention in which each query reads its own few keys: cost N_q * S, not N_q * N_k."""
    rows = torch.arange(q.shape[0], device=q.device)[:, None, None]
    some_k, some_v = (t.transpose(1, 2)[rows, choice].permute(0, 3, 1, 2, 4) for t in (k, v))  # (B, heads, N_q, S, d)
    return F.scaled_dot_product_attention(q[..., None, :], some_k, some_v).squeeze(-2)


class Attention(nn.Module):
    """A pre-norm attention branch: of x to itself, or of x to a context of its own width."""

    def __init__(self, dim: int, heads: int, head_dim: int, context_dim: int | None = None):
        super().__init__()
        inner = heads * head_dim
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.context_norm = None if context_dim is None else nn.LayerNorm(context_dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim or dim, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def forward(
        self,
        x: Tensor,  # (B, N, dim)
        context: Tensor | None = None,  # (B, N_k, context_dim)
        keys: Tensor | None = None,  # (B, N_k) bool
        choice: Tensor | None = None,  # (B, N, S) keys read by each query, all of them real
    ) -> Tensor:  # (B, N, dim)
        x = self.norm(x)
        context = x if context is None or self.context_norm is None else self.context_norm(context)
        q = split_heads(self.to_q(x), self.heads)
        k, v = (split_heads(t, self.heads) for t in self.to_kv(context).chunk(2, dim=-1))
        out = masked_attention(q, k, v, keys) if choice is None else chosen_attention(q, k, v, choice)
        return self.to_out(join_heads(out))


class GatedFeedForward(nn.Module):
    """GEGLU: two linear maps of the token, one through a GELU, multiplied, then a third."""

    def __init__(self, dim: int, factor: int = 4, dropout: float = 0.0):
        super().__init__()
        self.to_gates = nn.Linear(dim, 2 * factor * dim)
        self.dropout = nn.Dropout(dropout)
        self.to_out = nn.Linear(factor * dim, dim)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, dim)
        gate, value = self.to_gates(x).chunk(2, dim=-1)
        return self.to_out(self.dropout(F.gelu(gate) * value))


def feed_forward(dim: int, factor: int = 4) -> nn.Sequential:
    """A pre-norm GEGLU branch."""
    return nn.Sequential(nn.LayerNorm(dim), GatedFeedForward(dim, factor))


class SelfBlock(nn.Module):
    """Self-attention, then a feed-forward, each added to its input."""

    def __init__(self, dim: int, heads: int, head_dim: int, factor: int = 4):
        super().__init__()
        self.attention = Attention(dim, heads, head_dim)
        self.feed = feed_forward(dim, factor)

    def forward(self, x: Tensor, keys: Tensor | None = None, choice: Tensor | None = None) -> Tensor:  # (B, N, dim)
        x = x + self.attention(x, keys=keys, choice=choice)
        return x + self.feed(x)


def split_heads(x: Tensor, heads: int) -> Tensor:  # (B, N, heads * d) -> (B, heads, N, d)
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:  # (B, heads, N, d) -> (B, N, heads * d)
    return x.transpose(1, 2).flatten(2)
