"""Kill training at any moment and resume: the final weights are bit-identical to an uninterrupted run's.

One fresh interpreter imports everything once and then forks, so each of the many killed processes costs its
training and not the import. The processes are killed by SIGKILL, which nothing can catch, after a random
time.
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

def start(run):
    child = os.fork()
    if child == 0:
        try:
            store = open_pairs(pairs)
            model = tiny.Tiny(tiny.spec_of(store))
            train(model, store, run, config, resume=(run / "run.json").exists())
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return child

begun = time.time()
_, status = os.waitpid(start(folder / "whole"), 0)
assert status == 0, status
duration = time.time() - begun

moments, lot = [], random.Random(0)
while True:
    child = start(folder / "killed")
    patience = lot.uniform(0.05, 0.3) * duration if len(moments) < 8 else 60.0
    end = time.time() + patience
    done = 0
    while time.time() < end and done == 0:
        time.sleep(0.002)
        done, status = os.waitpid(child, os.WNOHANG)
    if done:
        assert status == 0, status
        break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    moments.append(sorted(path.name for path in (folder / "killed" / "state").glob("*")))
print(json.dumps({"duration": duration, "moments": moments}))
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
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    moments = json.loads(done.stdout)["moments"]
    assert len(moments) >= 3
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

    def cut(progress) -> None:
        raise Cut

    with pytest.raises(Cut):
        train(tiny.Tiny(tiny.spec_of(store)), store, run, config, report=cut)
    # A lock belongs to an opening of the folder: another one in this process is as good as another process.
    with only_writer(run), pytest.raises(SolidError, match=f"another process is training in {run}"):
        train(tiny.Tiny(tiny.spec_of(store)), store, run, config, resume=True)
    assert train(tiny.Tiny(tiny.spec_of(store)), store, run, config, resume=True).steps == 4
