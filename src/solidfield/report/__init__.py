"""How far to trust a run: scores on held-out readings beside rivals, a verdict in plain words, one page that shows it.

held.py -> drawn.py -> scored.py -> verdict.py -> findings.py (all of it, as data) -> figures.py, page.py -> write.py
"""

from .findings import RIVALS, Findings, judge_run
from .write import refuse_report, write_report

__all__ = ["RIVALS", "Findings", "judge_run", "refuse_report", "write_report"]
