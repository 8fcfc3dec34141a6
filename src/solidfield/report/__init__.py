"""How far to trust a run: scores on held-out readings beside rivals, a verdict in plain words, one page that shows it.

targets.py (what judges) -> ensembles.py (what was predicted there) -> scoring.py (the table) -> verdict.py (words) ->
tables.py, figures.py, page.py -> write.py. findings.py goes this way for a run, rollouts.py several steps ahead, and
maps.py for maps that are already there, also by simulated truth.
"""

from .ensembles import RIVALS
from .findings import Findings, evaluate_run, own_pairs
from .questions import evaluate_questions
from .write import refuse_report, write_report

__all__ = ["RIVALS", "Findings", "evaluate_questions", "evaluate_run", "own_pairs", "refuse_report", "write_report"]
