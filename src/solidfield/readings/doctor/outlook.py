"""What can be learned from these readings, in plain words. The thresholds are rules of thumb, and the words say so."""

from __future__ import annotations

import math

import numpy as np

from .coverage import PAIRS, Candidate, Common

FAINT = 0.2  # correlation below which an old reading is hardly worth knowing
LONGEST = 18  # steps that a run of readings looks at on either side


def outlook(
    chosen: Candidate,
    common: Common,
    share: float,  # of the rows that the numbers rest on
    geographic: bool,
) -> tuple[str, ...]:
    """Number of pairs, distance between sensors, persistence, overlap, unvisited cells."""
    unit = "km" if geographic else "units"
    pairs = int(chosen.pairs / share)
    lines = [f"about {pairs:,} pairs of consecutive frames" + ("" if share == 1 else " (scaled up from the days kept)")]
    if pairs < PAIRS[0]:
        lines[0] += f": below about {PAIRS[0]} do not expect a network to beat kriging (rule of thumb)"
    elif pairs < PAIRS[1]:
        lines[0] += (
            f": between about {PAIRS[0]} and {PAIRS[1]:,} a small network can win over kriging, if regularised; judge "
            "it on held-out days (rule of thumb)"
        )
    else:
        lines[0] += f": above about {PAIRS[1]:,} a network has room to learn (rule of thumb)"
    if np.isfinite(common.length) and common.spacing > 0:
        ratio = common.spacing / common.length
        verdict = (
            "the space between them can be filled in with small error"
            if ratio < 0.5
            else "maps between them will be uncertain, but say more than the mean"
            if ratio < 1.5
            else "between them little is known beyond the mean: expect wide, honest intervals there"
        )
        lines.append(
            f"readings of a frame are {common.spacing:.3g} {unit} apart and go together over about {common.length:.3g} "
            f"{unit}: {verdict}"
        )
    elif np.isfinite(common.spacing):
        lines.append(
            f"readings of a frame are {common.spacing:.3g} {unit} apart and share nothing that distance explains "
            "beyond the frame's mean: expect maps near the mean, with wide intervals"
        )
    if np.isfinite(common.lag):
        lines.append(
            f"a cell's reading and its next one {chosen.every} later correlate by {common.lag:.2f}: "
            + (
                "persistence will be hard to beat one step ahead"
                if common.lag > 0.9
                else "there is something to forecast"
                if common.lag > 0.3
                else "one step ahead is nearly a new draw; try a shorter step"
            )
        )
        lines.append(_window(common.lag, chosen.every))
    if np.isfinite(chosen.overlap):
        lines.append(
            f"{100 * chosen.overlap:.0f} % of the cells seen in a frame were seen in the one before"
            + ("" if chosen.overlap > 0.05 else ": sensors move too fast to follow a place in time")
        )
    if chosen.never:
        lines.append(
            f"{chosen.never:,} of {chosen.cells:,} cells are never visited: maps there are extrapolated and cannot be "
            "checked"
        )
    return tuple(lines)


def _window(lag: float, every: str) -> str:
    """How many steps a reading is worth knowing, if its correlation goes on falling as it does over the first."""
    if lag <= FAINT:
        return "a reading says hardly anything of its cell one step later: a window of 1 frame is enough"
    steps = LONGEST if lag >= 1 else min(LONGEST, math.ceil(math.log(FAINT) / math.log(lag)))
    more = "" if steps < LONGEST else " or more"
    return (
        f"a reading says something of its cell for about {steps}{more} steps of {every}: that is the window to know "
        f"(a run of readings looks at {LONGEST} on either side; `solid observe --window` asks for one)"
    )
