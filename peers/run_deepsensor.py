"""DeepSensor's ConvNP: a convolutional neural process, told the readings of a frame and of the two beside it.

Followed: the docstrings of deepsensor 0.4.4 (`ConvNP`, `Trainer`, `TaskLoader`) and of neuralprocesses 0.2.7. As there:
the Gaussian likelihood "cnp", its default; an internal grid as dense as the readings (`compute_greatest_data_density`:
the 5 % quantile of distances to the nearest other), encoder scale half a step and decoder scale one step of it; each
frame split at random into context and targets; Adam; loss per target.

Chosen here, for a budget of CPU minutes: three levels of 24 channels (about 100,000 weights; a step of the default, 4
of 64, multiplies at least seven times as much), batches of 16, learning rate 2e-3 falling by a cosine, three context
sets (the frame, the one before, the one after), time of day as further channels of the first. Where the asked places
were never read, their like is practised: of that share of training frames the targets' own places are taken out of the
frames beside it.

Batches are built here, with masks of neuralprocesses: in a trial with `concat_tasks` of deepsensor 0.4.4 all context
was dropped without an error. With `--check` the script compares the losses of a batch with those of its frames alone.
"""

import sys
import time

import deepsensor.torch  # noqa: F401  (chooses the backend)
import neuralprocesses.torch as nps
import numpy as np
import torch
from deepsensor.model.convnp import ConvNP
from exchange import Task
from scipy.spatial import cKDTree

BATCH, RATE, CHANNELS, DENSEST = 16, 2e-3, (24, 24, 24), 50


class Frames:
    """Readings by frame, coordinates in [0, 1]."""

    def __init__(self, task: Task):
        self.task = task
        both = task.given[["y", "x"]].to_numpy()
        self.low, self.size = both.min(0), float((both.max(0) - both.min(0)).max())
        self.rows = {int(frame): rows for frame, rows in task.given.groupby("frame").indices.items()}
        self.x, self.y = self.place(task.given), task.given["value"].to_numpy()
        self.day = task.cycle(task.given["frame"].to_numpy())
        self.nothing = np.zeros(0, int)

    def place(self, table) -> np.ndarray:  # (n, 2)
        return (table[["y", "x"]].to_numpy() - self.low) / self.size

    def density(self) -> int:
        some = [self.x[rows] for rows in list(self.rows.values())[:1000] if len(rows) > 1]
        nearest = np.concatenate([cKDTree(x).query(x, k=2)[0][:, 1] for x in some])
        return min(DENSEST, round(1 / np.quantile(nearest, 0.05)))

    def context(self, frame: int, without: np.ndarray, elsewhere: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """(n, 2) places and (n, d) values of three sets; `elsewhere`: nor the places of these rows in other frames."""
        sets = []
        for step in (0, -1, 1):
            rows = self.rows.get(frame + step, self.nothing)
            if step == 0:
                rows = np.setdiff1d(rows, without)
            elif elsewhere:
                away = (self.x[rows, None] == self.x[None, without]).all(2).any(1)
                rows = rows[~away]
            values = self.y[rows, None]
            sets.append((self.x[rows], np.concatenate([values, self.day[rows]], 1) if step == 0 else values))
        return sets


def batched(contexts: list) -> list:
    """Sets of several frames as masked tensors."""
    made = []
    for group in zip(*contexts, strict=True):
        most = max(1, *(len(x) for x, _ in group))
        place, value = np.zeros((len(group), 2, most)), np.zeros((len(group), group[0][1].shape[1], most))
        mask = np.zeros((len(group), 1, most))
        for n, (x, y) in enumerate(group):
            place[n, :, : len(x)], value[n, :, : len(x)], mask[n, :, : len(x)] = x.T, y.T, 1
        place, value, mask = (torch.tensor(part, dtype=torch.float32) for part in (place, value, mask))
        made.append((place, nps.Masked(value, mask)))
    return made


def lesson(frames: Frames, often: np.ndarray, unread: float, draws: np.random.Generator, count: int = BATCH):
    """A batch of frames, split into context and equally many targets."""
    chosen = draws.choice(often, count)
    most = min(len(frames.rows[int(frame)]) for frame in chosen)
    targets = max(1, round(most * draws.uniform(0.05, 0.5)))
    contexts, place, value = [], [], []
    for frame in chosen:
        rows = draws.permutation(frames.rows[int(frame)])[:targets]
        contexts.append(frames.context(int(frame), rows, draws.random() < unread))
        place.append(frames.x[rows].T)
        value.append(frames.y[None, rows])
    xt, yt = (torch.tensor(np.stack(part), dtype=torch.float32) for part in (place, value))
    return batched(contexts), xt, yt


def check(model: ConvNP, frames: Frames, often: np.ndarray) -> None:
    """The loss of a batch is the mean of the losses of its frames."""
    context, xt, yt = lesson(frames, often, 0.5, np.random.default_rng(0), 4)
    whole = nps.loglik(model.model, context, xt, yt, normalise=True)
    for n in range(4):
        kept = [(x[n : n + 1, :, y.mask[n, 0] > 0], y.y[n : n + 1, :, y.mask[n, 0] > 0]) for x, y in context]
        alone = nps.loglik(model.model, kept, xt[n : n + 1], yt[n : n + 1], normalise=True)
        print(n, whole[n].item(), alone[0].item())


def main() -> None:
    task = Task.read()
    torch.manual_seed(task.about["seed"])
    torch.set_num_threads(1)
    frames, draws = Frames(task), np.random.default_rng(task.about["seed"])
    density = frames.density()
    model = ConvNP(
        dim_x=2,
        dim_yc=(1 + frames.day.shape[1], 1, 1),
        dim_yt=1,
        internal_density=density,
        unet_channels=CHANNELS,
        encoder_scales=0.5 / density,
        decoder_scale=1 / density,
        likelihood="cnp",
    )
    often = np.array([frame for frame, rows in frames.rows.items() if len(rows) >= 4])
    read = set(zip(task.given["y"].round(6), task.given["x"].round(6), strict=True))
    asked = list(zip(task.asked["y"].round(6), task.asked["x"].round(6), strict=True))
    unread = float(np.mean([place not in read for place in asked]))
    lesson_ = lesson(frames, often, unread, draws, 2)
    nps.loglik(model.model, *lesson_, normalise=True)  # makes the lazy layers
    if "--check" in sys.argv:
        check(model, frames, often)
        return
    adam, whole, steps = torch.optim.Adam(model.model.parameters(), lr=RATE), task.left(), 0
    while (left := task.left()) > 0:
        for group in adam.param_groups:
            group["lr"] = RATE * (0.01 + 0.99 * 0.5 * (1 - np.cos(np.pi * left / whole)))
        loss = -nps.loglik(model.model, *lesson(frames, often, unread, draws), normalise=True).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        steps += 1
        if steps % 100 == 1:
            print(f"{left:.0f} s left, step {steps}, loss {loss.item():.3f}", flush=True)
    training = time.process_time() - task.begun
    mean, std = np.zeros(len(task.asked)), np.ones(len(task.asked))
    places = frames.place(task.asked)
    with torch.no_grad():
        for frame, rows in task.asked.groupby("frame").indices.items():
            context = batched([frames.context(int(frame), frames.nothing, False)])
            law = model.model(context, torch.tensor(places[rows].T[None], dtype=torch.float32))
            mean[rows], std[rows] = law.mean.numpy().ravel(), law.var.sqrt().numpy().ravel()
    weights = sum(p.numel() for p in model.model.parameters())
    chosen = {"density": density, "channels": CHANNELS, "weights": weights, "steps": steps, "unread": unread}
    task.answer(task.normal(mean, std), training, "deepsensor", chosen)


main()
