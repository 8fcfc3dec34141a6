"""Sensor layouts: exact counts, no overlap, never stuck; distances against brute force."""

import numpy as np
import pytest

from solidfield.errors import SolidError
from solidfield.keys import numpy_generator
from solidfield.theory.distance import distance_to_sensor
from solidfield.worlds.masks import block_cells, random_cells, split


def assert_blocks(units: np.ndarray, block: int, shape: tuple[int, int]) -> None:
    """Every row is one whole b x b square of the grid, and no cell is in two."""
    assert len(np.unique(units)) == units.size
    y, x = np.divmod(units, shape[1])
    assert y.max() < shape[0]
    assert units.min() >= 0
    for axis in (y, x):
        offsets = axis - axis.min(axis=1, keepdims=True)
        assert (offsets.max(axis=1) == block - 1).all()


def test_random_cells_are_distinct_and_uniform():
    draws = [random_cells(5, (4, 5), numpy_generator(0, n)) for n in range(2000)]
    assert all(len(np.unique(draw)) == 5 for draw in draws)
    share = np.bincount(np.concatenate(draws).ravel(), minlength=20) / 2000  # each cell with probability 1/4
    assert np.abs(share - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 2000)


def test_random_cells_stay_in_the_domain():
    domain = np.zeros((6, 6), dtype=bool)
    domain[2:4, 1:5] = True
    assert set(random_cells(8, (6, 6), numpy_generator(0), domain).ravel()) == set(np.flatnonzero(domain))
    with pytest.raises(SolidError, match=r"9 sensors .* 8 usable"):
        random_cells(9, (6, 6), numpy_generator(0), domain)


@pytest.mark.parametrize(
    ("blocks", "block", "shape"),
    [
        (26, 8, (64, 64)),
        (36, 8, (64, 64)),
        (63, 8, (64, 64)),
        (64, 8, (64, 64)),
        (6, 5, (21, 20)),
        (16, 5, (21, 20)),
        (12, 3, (13, 11)),
        (1, 7, (7, 9)),
        (77, 1, (7, 11)),
        (8, 4, (8, 19)),
        (8, 4, (19, 8)),
    ],
)
def test_blocks_always_fit_up_to_capacity(blocks, block, shape):
    for n in range(10):
        units = block_cells(blocks, block, shape, numpy_generator(n))
        assert units.shape == (blocks, block * block)
        assert_blocks(units, block, shape)


def test_26_blocks_never_fail():
    for n in range(300):
        assert_blocks(block_cells(26, 8, (64, 64), numpy_generator(1, n)), 8, (64, 64))


def test_blocks_stand_at_any_offset():
    units = np.concatenate([block_cells(2, 8, (64, 64), numpy_generator(n)) for n in range(1000)])
    corner_y, corner_x = np.divmod(units[:, 0], 64)
    assert set(corner_y % 8) == set(corner_x % 8) == set(range(8))
    assert corner_y.max() == corner_x.max() == 56
    packed = np.concatenate([block_cells(15, 5, (22, 23), numpy_generator(n)) for n in range(200)])
    assert set(packed[:, 0] // 23 % 5) == set(range(5))  # slack moves a dense packing too


def test_order_of_blocks_is_exchangeable():
    """Sequential placement puts late blocks elsewhere than early ones; the returned order must not tell."""
    first = np.array([block_cells(3, 2, (4, 6), numpy_generator(n))[0, 0] for n in range(4000)])
    last = np.array([block_cells(3, 2, (4, 6), numpy_generator(n))[2, 0] for n in range(4000)])
    counts = [np.bincount(corner, minlength=24) / 4000 for corner in (first, last)]
    assert np.abs(counts[0] - counts[1]).max() < 0.04


def test_too_many_blocks_is_an_error_with_numbers():
    with pytest.raises(SolidError, match=r"65 blocks of 8 x 8 exceed the 64 that fit 64 x 64 cells"):
        block_cells(65, 8, (64, 64), numpy_generator(0))
    with pytest.raises(SolidError, match="exceed the 0"):
        block_cells(1, 9, (8, 64), numpy_generator(0))


def test_blocks_lie_wholly_inside_a_domain():
    domain = np.zeros((20, 20), dtype=bool)
    domain[3:12, 5:19] = True
    units = block_cells(4, 4, (20, 20), numpy_generator(3), domain)
    assert_blocks(units, 4, (20, 20))
    assert domain.ravel()[units].all()
    with pytest.raises(SolidError, match=r"no room for 9 blocks of 4 x 4 in a domain of 126 cells"):
        block_cells(9, 4, (20, 20), numpy_generator(3), domain)


@pytest.mark.parametrize("n", [2, 3, 10, 409])
@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5, 1.0])
def test_split_counts(n, overlap):
    units = random_cells(n, (32, 32), numpy_generator(n))
    m_i, m_o = split(units, (32, 32), overlap)
    shared = int(overlap * n + 0.5)
    assert (m_i | m_o).sum() == n
    assert (m_i & m_o).sum() == shared
    assert m_i.sum() - m_o.sum() == (n - shared) % 2


def brute_force(mask, spacing, periodic):
    height, width = mask.shape
    distance = np.full(mask.shape, np.inf)
    for y in range(height):
        for x in range(width):
            for sy, sx in np.argwhere(mask):
                dy, dx = abs(y - sy), abs(x - sx)
                dy = min(dy, height - dy) if periodic[0] else dy
                dx = min(dx, width - dx) if periodic[1] else dx
                distance[y, x] = min(distance[y, x], np.hypot(dy * spacing[0], dx * spacing[1]))
    return distance


@pytest.mark.parametrize("periodic", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", [(7, 10), (8, 5), (1, 6)])
def test_distance_is_brute_force(shape, periodic):
    for n, count in enumerate((1, 2, 5)):
        mask, _ = split(random_cells(count, shape, numpy_generator(n, *shape)), shape, overlap=1.0)
        spacing = (0.5, 2.0)
        expected = brute_force(mask, spacing, periodic)
        np.testing.assert_allclose(distance_to_sensor(mask, spacing, periodic), expected, rtol=1e-12)


def test_distance_without_sensors_is_infinite():
    assert np.isinf(distance_to_sensor(np.zeros((3, 4), dtype=bool))).all()
