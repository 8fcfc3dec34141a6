"""Where work is done: in this process, in a few processes beside it, or on a Dask cluster.

    for item, outcome in spread(function, items, engine):  ...

Outcomes come as they are ready; an outcome is what the function returned or the exception that it raised, so that one
failure stops nothing else. A function that is sent elsewhere must be importable there and take one picklable item.

A worker of Dask is told to give back what it frees at once (`MALLOC_TRIM_THRESHOLD_`), so that every array of more than
128 KiB is asked of the system anew, page by page, which takes much of the time of a map. While a task of ours is done
there, memory is kept for the next array, and given back at its end.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .errors import SolidError

I = TypeVar("I")
O = TypeVar("O")
Progress = Callable[[str, int, int | None], None]  # what is being done, how much of it, of how much (None: not known)
ENGINES = ("here", "processes", "dask")
PATIENCE = 1.0  # seconds between two looks at what is running
READY = 2  # items made ahead: with one, its maker and its user wait for each other whenever an item takes longer
TRIM, PAD, MAPPED = -1, -2, -3  # numbers of glibc's `mallopt`: keep so much, take so much more, map what is larger
KEPT = {MAPPED: 32 << 20, TRIM: 1 << 29, PAD: 64 << 20}  # bytes while a task is done: 32 MiB is the most it can map


def memory() -> int:  # bytes
    """What this machine has, or what its container may use."""
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(have, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return have


@dataclass(frozen=True)
class Engine:
    kind: str = "here"
    jobs: int = 1  # processes, here or of a local cluster
    scheduler: str | None = None  # address of a Dask cluster; None: a local one for as long as it is needed

    def __post_init__(self) -> None:
        if self.kind not in ENGINES:
            raise SolidError(f"no engine '{self.kind}'; choose one of {', '.join(ENGINES)}")
        if self.jobs < 1:
            raise SolidError(f"jobs is {self.jobs}; give at least 1")


def spread(
    function: Callable[[I], Any],
    items: Iterable[I],
    engine: Engine = Engine(),
    tick: Callable[[], None] | None = None,  # called about once a second while others work
) -> Iterator[tuple[I, Any]]:
    """Apply the function to every item; items are taken only when there is room for them."""
    if engine.kind == "here":
        for item in items:
            yield item, _outcome(function, item)
        return
    with _pool(engine) as (submit, room):
        queue, running = iter(items), dict[Any, I]()
        while True:
            while len(running) < room and (item := next(queue, _END)) is not _END:
                running[submit(_outcome, function, item)] = item
            if not running:
                return
            done, _ = wait(list(running), PATIENCE, FIRST_COMPLETED)
            if tick is not None:
                tick()
            for future in done:
                yield running.pop(future), _result(future)


def spread_all(function: Callable[[I], O], items: Iterable[I], engine: Engine = Engine()) -> Iterator[tuple[I, O]]:
    """As `spread`, for outcomes of which none is of use without the others: the first error ends it."""
    for item, outcome in spread(function, items, engine):
        if isinstance(outcome, Exception):
            raise outcome
        yield item, outcome


_END: Any = object()


def ahead(items: Iterable[I]) -> Iterator[I]:
    """The same items in the same order, the next ones made in a thread while this one is used."""
    with ThreadPoolExecutor(1) as pool:
        queue = iter(items)
        waiting = deque(pool.submit(next, queue, _END) for _ in range(READY))
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(pool.submit(next, queue, _END))
            yield item


def each_ahead(function: Callable[[I], O], items: Iterable[I], threads: int = 2) -> Iterator[O]:
    """function(item) of each in the order of the items, the next ones made in threads while this one is used.

    An error, of the function or of the items themselves, comes in its turn, after all that was made before it.
    """
    queue, waiting = iter(items), deque[Future[O]]()
    more = True
    with ThreadPoolExecutor(threads) as pool:
        while more or waiting:
            while more and len(waiting) <= threads:
                try:
                    waiting.append(pool.submit(function, next(queue)))
                except StopIteration:
                    more = False
                except Exception as error:  # of any kind: it is raised again below
                    more = False
                    waiting.append(Future())
                    waiting[-1].set_exception(error)
            if waiting:
                yield waiting.popleft().result()


def keep_freed_memory() -> None:
    """Let the C library keep what arrays give back, some 60 MB of it, for those that follow.

    A stream makes and drops arrays of a megabyte by the thousand. glibc returns memory of such sizes to the system,
    which clears every page before it is used again: that was a third of the time of gridding. It keeps sizes up to
    that of the largest array it has seen freed, 32 MiB at most (mallopt(3), M_MMAP_THRESHOLD): one is made, and freed
    untouched.
    """
    np.empty((32 << 20) - (1 << 16), np.uint8)


def _outcome(function: Callable[[I], Any], item: I) -> Any:
    try:
        return function(item)
    except Exception as error:  # of any kind: it belongs to this item alone
        return error


def _outcome_kept(function: Callable[[I], Any], item: I) -> Any:
    """The same in a worker of Dask, with memory kept from array to array."""
    with memory_kept():
        return _outcome(function, item)


@contextmanager
def memory_kept() -> Iterator[None]:
    """Where this process was told to give memory back at once, keep it for a while; elsewhere nothing changes."""
    told = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    allocator = ctypes.CDLL(None) if told.isdigit() and os.name == "posix" else None
    if not hasattr(allocator, "mallopt"):
        yield
        return
    assert allocator is not None
    try:
        for number, size in KEPT.items():
            allocator.mallopt(number, size)
        yield
    finally:
        for number, size in {MAPPED: 128 << 10, TRIM: int(told), PAD: 0}.items():
            allocator.mallopt(number, size)
        allocator.malloc_trim(0)


def _result(future: Future[Any]) -> Any:
    """A worker that was killed has no outcome of its own."""
    try:
        return future.result()
    except Exception as error:
        return error


@contextmanager
def _pool(engine: Engine) -> Iterator[tuple[Callable[..., Future[Any]], int]]:
    """How to submit, and how much room there is."""
    with _single_threaded():
        if engine.kind == "processes":
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(engine.jobs, context, end_with, (os.getpid(),)) as pool:
                yield pool.submit, engine.jobs
            return
        client = _client(engine)
        try:
            workers = client.scheduler_info(n_workers=-1)["workers"]
            room = 2 * sum(worker["nthreads"] for worker in workers.values()) or engine.jobs  # the next lies ready
            executor = client.get_executor(pure=False)
            yield lambda _, *words: executor.submit(_outcome_kept, *words), room
        finally:
            client.close()
            if engine.scheduler is None:
                client.cluster.close()


def _client(engine: Engine) -> Any:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise SolidError(
            "the dask engine needs the packages dask and distributed; install solidfield[cluster]"
        ) from None
    if engine.scheduler is None:
        cluster = LocalCluster(n_workers=engine.jobs, threads_per_worker=1, dashboard_address=None)
        return Client(cluster)
    try:
        return Client(engine.scheduler, timeout="10s")
    except OSError as error:
        raise SolidError(f"no Dask scheduler at {engine.scheduler} ({error}); start one or leave it out") from None


@contextmanager
def _single_threaded() -> Iterator[None]:
    """New processes start with one thread each: side by side they are faster so, and measured alike."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def end_with(parent: int) -> None:
    """Started in a worker: it ends when its parent was killed, and its run resumes when it is asked for again."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
