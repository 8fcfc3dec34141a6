"""The time budget of a training run: how fast it goes, how long it will take, how many steps fit into a budget of
minutes. The clock is the wall's, or counts the seconds this process spends computing (`clock = "cpu"`), so that
budgets mean the same on a busy machine.

A step costs  s + v / V + c / C  seconds: its own time, and its share of a validation every V and a checkpoint
every C steps. The first steps are left out of s, since they also allocate memory and choose kernels.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..config import TrainConfig

SKIP = 3  # steps before the measurement of s begins
LEAST = 5  # steps it must hold ...
SHARE = 0.05  # ... and the share of the budget it takes before the number of steps is fixed


class Budget:
    def __init__(self, config: TrainConfig):
        self.config = config
        self.now = time.process_time if config.clock == "cpu" else time.perf_counter
        self.before = 0.0  # seconds of earlier sessions of the same run
        self.begun = self.measured_from = self.now()
        self.steps = 0  # of this session
        self.cost = {"validation": 0.0, "checkpoint": 0.0}  # v and c, the latest of each
        self.set_aside = 0.0  # seconds since `measured_from` that were not steps
        self.guess = 0.0  # s from the steps that are left out, until there are others

    @property
    def seconds(self) -> float:
        """Of training, over all sessions."""
        return self.before + self.now() - self.begun

    def stepped(self) -> None:
        self.steps += 1
        if self.steps == SKIP:
            self.guess = self.step_seconds
            self.measured_from, self.set_aside = self.now(), 0.0

    @contextmanager
    def aside(self, kind: str) -> Iterator[None]:
        """Time something that is not a step."""
        start = self.now()
        yield
        self.cost[kind] = self.now() - start
        self.set_aside += self.cost[kind]

    @property
    def step_seconds(self) -> float:
        """s, the mean over the measured steps."""
        if self.steps == SKIP and self.guess:
            return self.guess
        measured = self.steps - SKIP if self.steps > SKIP else self.steps
        return (self.now() - self.measured_from - self.set_aside) / max(measured, 1)

    @property
    def speed(self) -> float:
        """Examples a second, validations and checkpoints apart."""
        return self.config.batch / max(self.step_seconds, 1e-9)

    @property
    def full_step_seconds(self) -> float:
        validation = self.cost["validation"] / self.config.validate_every
        checkpoint = self.cost["checkpoint"] / self.config.checkpoint_every
        return self.step_seconds + validation + checkpoint

    def known(self) -> bool:
        """Has enough been measured to fix the number of steps?"""
        budget = 60 * (self.config.minutes or 0.0)
        return self.steps >= SKIP + LEAST and self.now() - self.measured_from >= SHARE * budget

    def total(self, step: int) -> int:
        """The number of steps that fits, the last validation and checkpoint included; at least one more."""
        left = 60 * (self.config.minutes or 0.0) - self.seconds - sum(self.cost.values())
        return step + max(1, int(left / self.full_step_seconds))
