"""The frames before a source, as an index into a store that holds every frame once.

An example of trajectory r and source frame f knows the sources of frames f, f - stride, f - 2 stride ... of r, where
they are of its own split. None is later than f.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

SOURCE_LIST = "source_list"


def earlier_lists(
    columns: Mapping[str, np.ndarray],  # each (E,)
    lists: np.ndarray,  # (E,) the source list of each example
    window: int,
    stride: int,
) -> np.ndarray:  # (E, W)
    """The source lists of each example, newest first; -1 where nothing was read.

    >>> columns = {"trajectory": np.array([0, 0, 1]), "frame_source": np.array([2, 4, 4]), "split": np.zeros(3)}
    >>> earlier_lists(columns, np.array([7, 8, 9]), window=2, stride=2)
    array([[ 7, -1],
           [ 8,  7],
           [ 9, -1]])
    """
    trajectory, frame, split = (columns[name].astype(np.int64) for name in ("trajectory", "frame_source", "split"))
    span = int(frame.max(initial=0)) + 1 + window * stride  # frames before the first fall into a gap of their own
    key = ((split.max(initial=0) + 1) * trajectory + split) * span + frame
    known, first = np.unique(key, return_index=True)
    found = []
    for back in range(window):
        wanted = key - back * stride
        place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
        found.append(np.where(known[place] == wanted, lists[first[place]], -1))
    return np.stack(found, axis=1)
