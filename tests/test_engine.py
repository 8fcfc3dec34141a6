"""Where work is done: what an engine hands back does not depend on it, nor on workers that die."""

import os
import signal
import subprocess
import sys
import time

import pytest

from solidfield.engine import Engine, ahead, each_ahead, spread


def square(item: tuple[int, float]) -> tuple[int, int]:
    """Of a number, after some seconds; and who did it."""
    time.sleep(item[1])
    return os.getpid(), item[0] ** 2


def test_a_killed_worker_of_a_cluster_loses_nothing():
    """The worker that is not yet done with the second item dies; another does it again, and the rest goes on."""
    distributed = pytest.importorskip("distributed")
    items = [(n, 2.0 if n == 1 else 0.0) for n in range(6)]
    found, killed = {}, None
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            pids = set(client.run(os.getpid).values())
        for item, (pid, value) in spread(square, items, Engine("dask", 2, cluster.scheduler_address)):
            assert item not in found
            found[item] = pid, value
            if killed is None:
                (killed,) = pids - {pid}
                os.kill(killed, signal.SIGKILL)
    assert {n: value for (n, _), (_, value) in found.items()} == {n: n**2 for n in range(6)}
    assert found[items[1]][0] != killed


def test_items_made_ahead_come_in_order_and_their_errors_too():
    def numbers():
        yield from range(5)
        raise ValueError("no sixth")

    items = ahead(numbers())
    assert [next(items) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="no sixth"):
        next(items)
    squares = each_ahead(lambda n: square((n, 0.05 * (n == 0)))[1], numbers())  # the first is the last to be done
    assert [next(squares) for _ in range(5)] == [n**2 for n in range(5)]
    with pytest.raises(ValueError, match="no sixth"):
        next(squares)
    quotients = each_ahead(lambda n: 6 // (2 - n), numbers())
    assert [next(quotients) for _ in range(2)] == [3, 6]
    with pytest.raises(ZeroDivisionError):
        next(quotients)


KEEPING = """
import resource, numpy as np
from solidfield.engine import memory_kept
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(60):
        np.ones(2**19)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first = faults()
with memory_kept():
    faults()
    kept = faults()
print(first, kept, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="told by the allocator of Linux")
@pytest.mark.parametrize("told", ["65536", None])
def test_a_worker_of_dask_keeps_memory_from_array_to_array_while_it_works(told):
    """Told to give memory back at once, a process meets new pages with every array, but for the time of a task."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment |= {"MALLOC_TRIM_THRESHOLD_": told} if told else {}
    done = subprocess.run([sys.executable, "-c", KEEPING], env=environment, capture_output=True, text=True, timeout=120)
    before, kept, after = map(int, done.stdout.split())
    if told:
        assert kept < before / 20
        assert after > before / 2
    else:
        assert kept <= max(before, 200)
