"""Kill training at any moment and resume: the final weights are bit-identical to an uninterrupted run's.

One fresh interpreter imports everything once and then forks, so each of the many killed processes costs its
training and not the import. The processes are killed by SIGKILL, which nothing can catch, a random moment after the
log shows a random step. A process that is not killed soon waits for it a few steps later, so that a busy machine, too,
kills it where it was meant to be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tiny
from solidfield.errors import SolidError
from solidfield.pairs.store import PairStore
from solidfield.training.folder import only_writer
from solidfield.training.loop import train
from solidfield.training.record import RunRecord

KILLER = """
import json, os, random, signal, sys, time
import torch
torch.set_num_threads(1)
import tiny
from pathlib import Path
from solidfield.pairs.store import open_pairs
from solidfield.training.loop import train

pairs, folder = sys.argv[1], Path(sys.argv[2])
tiny.register()
config = tiny.tiny_config(steps=200, validate_every=25, checkpoint_every=8, thin=0.5)

def start(run, last):  # a process of its own, which waits to be killed once it is past the step `last`
    child = os.fork()
    if child == 0:
        try:
            store = open_pairs(pairs)
            model = tiny.Tiny(tiny.spec_of(store))
            wait = lambda what, done, total: time.sleep(60 if done > last else 0)
            train(model, store, run, config, resume=(run / "run.json").exists(), progress=wait)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return child

def logged(run):  # the last step of the log, -1 before there is one
    log = run / "log.jsonl"
    lines = log.read_text().split("\\n")[:-1] if log.exists() else []
    return json.loads(lines[-1])["step"] if lines else -1

def ended(child):
    _, status = os.waitpid(child, 0)
    return status

assert ended(start(folder / "whole", last=1000)) == 0
moments, lot = [], random.Random(0)
for step in sorted(lot.sample(range(10, 170), 8)):
    child = start(folder / "killed", last=step + 20)
    while logged(folder / "killed") < step // 10 * 10:
        time.sleep(0.002)
    time.sleep(lot.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    assert ended(child) == signal.SIGKILL
    moments.append(sorted(path.name for path in (folder / "killed" / "state").glob("*")))
assert ended(start(folder / "killed", last=1000)) == 0
print(json.dumps(moments))
"""


def scores(run: Path) -> dict[int, float]:
    """The validation CRPS at each step that has one."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return {line["step"]: line["validation_crps"] for line in lines if "validation_crps" in line}


def test_killed_runs_end_with_the_same_bits(store: PairStore, run: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    run.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(store.path), str(run)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    moments = json.loads(done.stdout)
    assert len(moments) == 8
    assert len({tuple(moment) for moment in moments}) >= 2  # at different steps

    whole, killed = run / "whole", run / "killed"
    names = ["weights.safetensors"]
    names += [f"state/step-00000200/{part}.safetensors" for part in ("model", "average", "best", "optimiser")]
    for name in names:
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name
    assert not list(killed.rglob(".tmp-*"))
    assert scores(whole) == scores(killed)
    assert RunRecord.open(killed).info["history"]["best_step"] == RunRecord.open(whole).info["history"]["best_step"]


def test_a_folder_that_another_process_trains_in_is_left_alone(run: Path, store: PairStore) -> None:
    config = tiny.tiny_config(steps=4)

    class Cut(Exception):
        pass

    def cut(*_: object) -> None:
        raise Cut

    with pytest.raises(Cut):
        train(tiny.Tiny(tiny.spec_of(store)), store, run, config, progress=cut)
    # A lock belongs to an opening of the folder: another one in this process is as good as another process.
    with only_writer(run), pytest.raises(SolidError, match=f"another process is training in {run}"):
        train(tiny.Tiny(tiny.spec_of(store)), store, run, config, resume=True)
    assert train(tiny.Tiny(tiny.spec_of(store)), store, run, config, resume=True).steps == 4
