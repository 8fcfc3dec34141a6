"""Large maps in crops: learned in some of them, encoded in all of them, blended where they overlap.

    f(p) = sum_w a_w(p) f_w(p) / sum_w a_w(p)        f_w: the features of crop w; a_w: 1 inside it, falling to its edges

The encoder is not quite local (it normalises, and attends), so one on a whole map would say something else on a larger
one, and cost more. In crops of the size it learned in, it costs and says the same on a map of any size; since crops
overlap and their weights fall off, no edge shows. Crops lie where the map is, whichever rows are asked for: parts of a
map fit together.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..fields import Source
from ..grid import Grid
from ..theory.nearby import crops, ramp


def rows_needed(grid: Grid, rows: slice) -> slice:
    """The rows of all crops that touch these; across the seam of a periodic axis, all there are."""
    strips = _touching(crops(grid.shape[0], grid.periodic[0]), rows)
    if bool((strips[:, 0] > strips[:, -1]).any()):
        return slice(0, grid.shape[0])
    return slice(int(strips.min()), int(strips.max()) + 1)


def blended(
    encode: Callable[[Tensor], Tensor],  # (N, Q, t, t) -> (N, F, t, t)
    query: Tensor,  # (B, Q, n, W), the rows of `rows_needed`
    grid: Grid,
    rows: slice,  # that are asked for
) -> Tensor:  # (B, F, h, W)
    """Features of these rows of a map, from crops that cover them."""
    first = rows_needed(grid, rows).start
    strips = _touching(crops(grid.shape[0], grid.periodic[0]), rows)
    columns = crops(grid.shape[1], grid.periodic[1])  # (n_x, t_x)
    weight = ramp(strips.shape[1])[:, None] * ramp(columns.shape[1])
    total, share = query.new_zeros(1), query.new_zeros(grid.shape)
    for strip in strips:
        cut_out = query[:, :, strip - first][..., columns].movedim(-2, 1)  # (B, n_x, Q, t_y, t_x)
        features = encode(cut_out.flatten(0, 1)).unflatten(0, cut_out.shape[:2]) * weight
        if total.ndim == 1:
            total = query.new_zeros(len(query), features.shape[2], *grid.shape)
        for x, feature in zip(columns, features.unbind(1), strict=True):
            total[:, :, strip[:, None], x] += feature
            share[strip[:, None], x] += weight
    return total[..., rows, :] / share[rows]


def crop_of(field: Tensor, grid: Grid, source: Source) -> Tensor:  # (E, H, W) -> (B, E, h, w)
    """What is known of the map, in the crops of a source."""
    assert source.around is not None
    cells = [
        (corner[:, None] + torch.arange(n)) % length
        for corner, n, length in zip(source.around.corner.T, source.mask.shape[-2:], grid.shape, strict=True)
    ]
    return field[:, cells[0][:, :, None], cells[1][:, None]].transpose(0, 1)


def _touching(strips: Tensor, rows: slice) -> Tensor:  # (n, t) -> (m, t)
    return strips[((strips >= rows.start) & (strips < rows.stop)).any(1)]
