"""The README's pictures of Kolkata, from the run that `solid bench network --networks kolkata --data DIR` leaves:

    python docs/images/kolkata.py bench/network/runs/kolkata-...

They are two figures of its report, an hour ahead.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from solidfield.report.figures import pictures
from solidfield.report.questions import evaluate_questions
from solidfield.training.record import RunRecord

run = replace(RunRecord.open(Path(sys.argv[1])), variables=("PM2.5",), units=("ug/m3",))
for picture in pictures(evaluate_questions(run, leads=[1])):
    if picture.name in ("lead1-maps", "lead1-series"):
        picture.figure.savefig(Path(__file__).with_name(f"kolkata-{picture.section}.png"))
