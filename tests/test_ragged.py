"""Lists on disk: gathering against a loop, growth against concatenation, a name only for what is whole."""

import hashlib

import numpy as np
import pytest
import zarr

from solidfield.errors import SolidError
from solidfield.pairs.ragged import Growing, appearing, label, load, positions, read_label


def test_positions_are_the_loop():
    generator = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(generator.integers(0, 5, size=30))])
    for lists in (generator.permutation(30), [7, 7, 3], [], [29]):
        rows, where = positions(offsets, np.asarray(lists, dtype=np.int64))
        loop = [(row, at) for row, e in enumerate(lists) for at in range(offsets[e], offsets[e + 1])]
        assert list(zip(rows.tolist(), where.tolist(), strict=True)) == loop


@pytest.mark.parametrize("tail", [(), (3, 2)])
def test_growth_is_concatenation_however_it_is_cut(tmp_path, monkeypatch, tail):
    monkeypatch.setattr("solidfield.pairs.ragged.CHUNK", 24)
    group, generator = zarr.open_group(tmp_path / "group", mode="w"), np.random.default_rng(1)
    blocks = [generator.normal(size=(n, *tail)).astype("<f4") for n in (1, 0, 30, 7, 24, 100, 2)]
    growing = Growing(group, "values", "<f4", tail)
    for block in blocks:
        growing.add(block)
    growing.flush(everything=True)
    whole = np.concatenate(blocks)
    assert growing.length == len(whole)
    assert growing.checksum.hexdigest() == hashlib.sha256(whole.tobytes()).hexdigest()
    np.testing.assert_array_equal(load(tmp_path / "group", "values", growing.checksum.hexdigest()), whole)
    with pytest.raises(SolidError, match="checksum of 'values'"):
        load(tmp_path / "group", "values", "0")


def test_a_later_change_of_the_callers_array_does_not_matter(tmp_path):
    growing = Growing(zarr.open_group(tmp_path / "group", mode="w"), "values", "<f4")
    block = np.ones(3, dtype="<f4")
    growing.add(block)
    block[:] = 9
    growing.flush(everything=True)
    assert growing.array[...].tolist() == [1, 1, 1]


def test_a_store_appears_only_when_complete(tmp_path):
    path = tmp_path / "deep" / "store"

    def interrupted() -> None:
        with appearing(path, "pair") as group:
            label(group, "pair", 1, {})
            assert not path.exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(path.parent.iterdir()) == []
    for value in (np.float32(1.5), np.arange(3)):
        with appearing(path, "pair") as group:
            label(group, "pair", 1, {"value": value})
    assert read_label(path, "pair", 1)["value"] == [0, 1, 2]
    assert [p.name for p in path.parent.iterdir()] == ["store"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SolidError, match=r"file/store"), appearing(tmp_path / "file" / "store", "pair"):
        pass
