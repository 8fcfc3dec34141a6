"""The processes and devices that share a training run, and what makes each of them repeatable.

One process is the rule. `torchrun --nproc-per-node N` starts N of the same command, and their number then
comes from it; without torchrun `devices = N` makes Fabric start the others itself, by running the command
again.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import TorchElasticEnvironment
from lightning_fabric.utilities.exceptions import MisconfigurationException

from ..config import TrainConfig
from ..errors import SolidError

T = TypeVar("T")


def launch(config: TrainConfig) -> Fabric:
    """Join the processes of this run."""
    devices, nodes = config.devices, 1
    if TorchElasticEnvironment.detect():
        devices, nodes = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["GROUP_WORLD_SIZE"])
        if config.devices not in (1, devices):
            raise SolidError(
                f"train.devices = {config.devices} but torchrun started {devices} processes; make them equal"
            )
    processes = devices * nodes
    if config.batch % processes:
        raise SolidError(
            f"train.batch = {config.batch} cannot be shared by {processes} processes; take a multiple of them"
        )
    try:
        fabric = Fabric(
            devices=devices, num_nodes=nodes, strategy="ddp" if processes > 1 else "auto", precision=config.precision
        )
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise SolidError(f"train.devices = {devices}, precision {config.precision}: {reason}") from None
    fabric.launch()
    if fabric.world_size > 1:
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """Leave the group of processes in order: a connection that is cut at exit can abort the others."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def by_first(fabric: Fabric, work: Callable[..., T], *arguments: Any) -> T:
    """Let the first process work (on files, by the clock) and all of them have its result or its error."""
    outcome: T | SolidError | None = None
    if fabric.global_rank == 0:
        try:
            outcome = work(*arguments)
        except SolidError as error:
            if fabric.world_size == 1:
                raise
            outcome = error
    outcome = fabric.broadcast(outcome)
    if isinstance(outcome, SolidError):
        raise outcome
    return outcome  # type: ignore[return-value]


@contextmanager
def repeatable(threads: int, device: torch.device) -> Iterator[None]:
    """Same input, same bits: a fixed number of threads, deterministic kernels; the caller's settings return.

    Without this the gradient of indexing, for one, adds in the order in which threads arrive. Some GPU
    kernels have no deterministic form; there it is a warning and the promise is for the CPU.
    """
    memory = torch.utils.deterministic
    threads_before, filled = torch.get_num_threads(), memory.fill_uninitialized_memory  # type: ignore[attr-defined]
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=device.type != "cpu")
    memory.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it would write every tensor twice
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads_before)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        memory.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
