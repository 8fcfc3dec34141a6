"""Networks on a set of cells: an operator over the set, and the way to a regular grid and back.

The sparse operator is a depthwise convolution over the cells of the set alone, divided by the local density
of the set,

    y(p) = sum_q K(p - q) m(q) x(q) / rho(p),   rho(p) the share of the k x k cells around p in the set,

so its answer does not shrink where cells are few. A node of the regular grid takes the values of its k
nearest cells of the set with weights 1 / distance^2, which is the value itself where node and cell coincide;
cells take the grid's values bilinearly.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from scipy.spatial import cKDTree
from torch import Tensor, nn

from ..grid import Grid
from .filters import resample
from .layers import Axes, wrap


class SparseBlock(nn.Module):
    """The sparse operator over the set, then an MLP at each of its cells, both scaled and shifted by tau."""

    def __init__(self, width: int, skip: int, kernel: int, embedding: int, periodic: Axes):
        super().__init__()
        self.periodic = periodic
        self.join = nn.Conv2d(width + skip, width, 1) if skip else nn.Identity()
        # No shift of their own: tau's follows.
        self.norm1, self.norm2 = ChannelNorm(width, shift=False), ChannelNorm(width, shift=False)
        self.time1, self.time2 = nn.Linear(embedding, 2 * width), nn.Linear(embedding, 2 * width)
        bound = 1.0 / kernel
        self.weight = nn.Parameter(torch.empty(width, 1, kernel, kernel).uniform_(-bound, bound))
        self.mlp = nn.Sequential(nn.Conv2d(width, 2 * width, 1), nn.GELU(), nn.Conv2d(2 * width, width, 1))

    def forward(
        self,
        x: Tensor,  # (B, width (+ skip), H, W)
        embedding: Tensor,  # (B, E)
        m: Tensor,  # (B, 1, H, W) 1 on the set
        density: Tensor,  # (B, 1, H, W) share of the neighbourhood that is in the set
    ) -> Tensor:  # (B, width, H, W)
        x = self.join(x)
        h = modulate(self.norm1(x), self.time1, embedding)
        x = x + depthwise(h * m, self.weight, self.periodic) / density
        return x + self.mlp(modulate(self.norm2(x), self.time2, embedding))


class Bridge(nn.Module):
    """From a set of cells to the regular grid by inverse-square weights of the k nearest, and back."""

    rows: Tensor
    columns: Tensor

    def __init__(self, grid: Grid, shape: tuple[int, int], neighbours: int):
        super().__init__()
        self.shape, self.neighbours = shape, neighbours
        self.same = shape == grid.shape
        axes = list(zip(grid.shape, grid.periodic, strict=True))
        self.periods = [float(n) if wraps else 0.0 for n, wraps in axes]
        self.cells = _places([np.arange(float(n)) for n in grid.shape])
        # Node g of the grid stands where its share of the axis has its middle; equal sizes coincide.
        laid = [(np.arange(g) + 0.5) * n / g - 0.5 for g, n in zip(shape, grid.shape, strict=True)]
        self.nodes = _places([a % n if wraps else a for a, (n, wraps) in zip(laid, axes, strict=True)])
        for name, g, (n, wraps) in zip(("rows", "columns"), shape, axes, strict=True):
            self.register_buffer(name, bilinear_matrix(n, g, wraps), persistent=False)

    def gather(self, x: Tensor, points: Tensor) -> Tensor:  # (B, C, H, W), (B, 1, H, W) -> (B, C, G, G')
        if self.same and bool(points.all()):
            return x  # each node is a cell of the set
        sets = points.flatten(1)
        if bool((sets == sets[:1]).all()):
            sets = sets[:1]
        found = [self._nearest(row.nonzero()[0]) for row in sets.cpu().numpy()]
        index = torch.stack([i for i, _ in found]).to(x.device).expand(len(x), -1, -1)  # (B, nodes, k)
        weight = torch.stack([w for _, w in found]).to(x)[:, None]  # (B or 1, 1, nodes, k)
        places = index.flatten(1)[:, None].expand(-1, x.shape[1], -1)  # (B, C, nodes k)
        taken = x.flatten(2).gather(2, places).unflatten(2, index.shape[1:])
        return (taken * weight).sum(dim=3).unflatten(2, self.shape)

    def spread(self, x: Tensor) -> Tensor:  # (B, C, G, G') -> (B, C, H, W)
        return x if self.same else resample(x, self.rows, self.columns)

    def _nearest(self, chosen: np.ndarray) -> tuple[Tensor, Tensor]:  # (n,) -> twice (nodes, k)
        """Cells of the set and their shares in each node; an empty set has no shares at all."""
        index = np.zeros((len(self.nodes), self.neighbours), dtype=np.int64)
        weight = np.zeros((len(self.nodes), self.neighbours))
        if len(chosen):
            tree = cKDTree(self.cells[chosen], boxsize=self.periods)
            distance, which = tree.query(self.nodes, k=range(1, self.neighbours + 1))
            found = np.isfinite(distance)  # infinite where cells run out
            index[found] = chosen[which[found]]
            weight = 1.0 / np.maximum(distance, 1e-8) ** 2
            weight /= weight.sum(axis=1, keepdims=True)
        return torch.from_numpy(index), torch.from_numpy(weight).float()


def _places(axes: list[np.ndarray]) -> np.ndarray:  # (cells, 2), row by row
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


class ChannelNorm(nn.Module):
    """Layer normalisation of each cell over its channels."""

    def __init__(self, width: int, shift: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, 1, 1))
        self.bias = nn.Parameter(torch.zeros(width, 1, 1)) if shift else None

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W)
        x = x - x.mean(dim=1, keepdim=True)
        x = x * (x.square().mean(dim=1, keepdim=True) + 1e-5).rsqrt() * self.weight  # var_mean is far slower along here
        return x if self.bias is None else x + self.bias


def modulate(x: Tensor, linear: nn.Linear, embedding: Tensor) -> Tensor:  # (B, C, H, W)
    """Scale and shift by tau."""
    scale, shift = linear(F.gelu(embedding))[:, :, None, None].chunk(2, dim=1)
    return x * (1 + scale) + shift


def depthwise(
    x: Tensor,  # (B, C, H, W)
    weight: Tensor,  # (C, 1, k, k)
    periodic: Axes,
) -> Tensor:  # (B, C, H, W)
    """A depthwise convolution that keeps the grid, with zeros or the far side beyond the edge."""
    margin = weight.shape[-1] // 2
    padding = [0 if wraps else margin for wraps in periodic]
    return F.conv2d(wrap(x, periodic, margin), weight, padding=padding, groups=len(weight))


def bilinear_matrix(size: int, nodes: int, periodic: bool) -> Tensor:  # (n, g)
    """Values at n cells from g nodes that share the axis evenly; the last node's value goes on, or wraps."""
    place = (torch.arange(size) + 0.5) * nodes / size - 0.5
    below = place.floor()
    share = place - below
    matrix = torch.zeros(size, nodes)
    for offset, part in ((0, 1 - share), (1, share)):
        node = (below + offset).long()
        node = node % nodes if periodic else node.clamp(0, nodes - 1)
        matrix[torch.arange(size), node] += part
    return matrix
