"""One page of HTML that needs nothing else: styles and pictures are inside, there is no script and no link out.

Whatever comes from the data (names of variables and models, units, paths) is escaped on its way in (`markup.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

from ..scores.table import ScoreTable
from .markup import figure, listing, section
from .tables import rolled_tables, tables
from .verdict import Verdict
from .words import REGIONS, labelled, percent

SECTIONS = {
    "models": "Beside its rivals",
    "rolled": "Several steps ahead",
    "maps": "One scene",
    "calibration": "Is the uncertainty honest?",
    "distance": "Away from the sensors",
    "hour": "Through the day",
    "series": "In time",
    "taught": "Where the model was taught",
}
TRANSFORMS = {"none": "it is", "log": "its logarithm", "sqrt": "its square root"}
READING = (
    ("CRPS", "the error of a whole predicted distribution, in the units of the variable; for a single value it is the "
     "absolute error. Less is better."),
    ("90 % intervals hold", "the share of held-out readings inside them; 90 % is honest, less is overconfident."),
    ("spread / skill", "predicted spread over actual error; 1 is honest, below 1 is overconfident."),
    ("error bars", "95 % intervals from resampling whole days (or trajectories), since neighbouring hours say nearly "
     "the same. A paired difference compares two models on the same readings."),
    ("rivals", "kriging: what the readings around say under a covariance fitted to them. climatology: what training "
     "readings usually are. nearest: the nearest sensor. persistence: the last reading of the place. moved: the same, "
     "moved as the other sensors have moved since. neighbours: the five nearest sensors, by distance. linear: between "
     "readings of the place before and after. forest, boosting: trees that are told these answers, place and hour."),
    ("readings, not truth", "what is predicted and judged is what a sensor reads there, its own error included."),
)  # fmt: skip

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="solidfield">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #f2f5f8; --line: #d0d7de; --mark: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --paper: #15191e; --soft: #20262d; --line: #3a434d; --mark: #5cb3e6; }
}
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin-bottom: 0.3rem; }
#verdict { background: var(--soft); border-left: 0.4rem solid var(--mark); padding: 0.8rem 1.2rem; }
#verdict .headline { font-size: 1.25rem; font-weight: 600; margin: 0.2rem 0 0.8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.8rem 0 1.4rem; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.3rem; }
th, td { padding: 0.25rem 0.7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; } tr.own { background: var(--soft); font-weight: 600; }
figure { margin: 1rem 0 1.6rem; } figcaption { font-size: 0.9rem; }
img { width: 100%; height: auto; background: #ffffff; border: 1px solid var(--line); }
code, pre { font: 0.85rem/1.4 ui-monospace, monospace; }
pre { background: var(--soft); padding: 0.7rem; overflow-x: auto; }
dt { font-weight: 600; } dd { margin: 0 0 0.5rem 1rem; overflow-wrap: anywhere; }
@media print {
  :root { color-scheme: light; --ink: #000000; --paper: #ffffff; --soft: #f2f5f8; --line: #b0b0b0; }
  body { max-width: none; padding: 0; font-size: 0.85rem; } h2 { break-after: avoid; }
  figure, table, #verdict { break-inside: avoid; }
}
</style>
</head>
<body>
<header><h1>$title</h1></header>
<main>
$content
</main>
</body>
</html>
""")


def page(
    table: ScoreTable,
    found: Verdict,
    images: Sequence[tuple[str, str, str, bytes]],  # section, caption, alternative text, PNG
    command: str,  # that makes the same report again
) -> str:
    """The verdict first, then what it rests on."""
    names = ", ".join(table.variables)
    parts = [_verdict(found)]
    for name, heading in SECTIONS.items():
        figures = [figure(caption, alt, png) for kind, caption, alt, png in images if kind == name]
        shown = {"models": tables, "rolled": rolled_tables}[name](table) if name in ("models", "rolled") else []
        if figures or shown:
            parts.append(section(name, heading, "\n".join((*shown, *figures))))
    parts.append(section("data", "What was used", listing(data_facts(table))))
    parts.append(section("words", "How to read this page", listing(READING)))
    again = f"<p>The same command on the same data and run gives the same page:</p><pre>{escape(command)}</pre>"
    parts.append(section("provenance", "Where it comes from", listing(run_facts(table)) + again))
    return PAGE.substitute(title=escape(f"How far to trust these maps of {names}"), content="\n".join(parts))


def _verdict(found: Verdict) -> str:
    blocks = (
        ("Is it worth it here?", found.worth),
        ("Are its intervals honest?", found.honest),
        ("Where not to trust it", found.caution),
    )
    lists = "".join(
        f"<h3>{escape(heading)}</h3><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
        for heading, lines in blocks
        if lines
    )
    headline = f'<p class="headline">{escape(found.headline)}</p><p class="headline">{escape(found.map)}</p>'
    return f'<section id="verdict" aria-label="Verdict">{headline}{lists}</section>'


def data_facts(table: ScoreTable) -> list[tuple[str, str]]:
    data, cells = table.about["data"], table.about["map"]
    facts = [
        ("variables", ", ".join(labelled(name, units) for name, units in table.variables.items())),
        ("grid", f"{data['grid']} cells, {cells['cells']} of them count"),
        ("examples", ", ".join(f"{count:,} {split}" for split, count in data["examples"].items())),
    ]
    for split in data["examples"]:
        if f"{split}_times" in data:
            first, last = data[f"{split}_times"]
            facts.append((f"{split} times ({data['clock']})", f"{first} to {last}"))
    if "rougher" in cells:
        rough = ", ".join(f"{ratio:.2f}" for ratio in cells["rougher"].values())
        facts.append(("steps between cells of the mean map, over kriging's", rough))
        rippled = ", ".join(f"{ratio:.2f}" for ratio in cells["rippled"].values())
        facts.append(("its power at the highest frequencies, over kriging's", rippled))
        far = (f"now {percent(share['now'])}, ahead {percent(share['ahead'])}" for share in cells["departure"].values())
        facts.append(("laws between the sensors, from kriging's (0 %) to the network's (100 %)", "; ".join(far)))
    if cells["held"]:
        held = ", ".join(f"{REGIONS[name]}: {count} cells" for name, count in cells["held"].items())
        facts.append(("held out for ever", held))
    facts += [
        ("modelled as", ", ".join(TRANSFORMS.get(name, name) for name in data["transforms"])),
        ("how it was split", ", ".join(f"{name} {value}" for name, value in data["scenario"].items())),
        ("fingerprint", data["fingerprint"]),
    ]
    return facts


def run_facts(table: ScoreTable) -> list[tuple[str, str]]:
    names = {
        "model_label": "model",
        "model_options": "options",
        "members": "members",
        "seed": "seed",
        "config_hash": "settings (hash)",
        "data_fingerprint": "trained on pairs with fingerprint",
        "solidfield_version": "trained with solidfield",
    }
    run = table.about["run"]
    return [(words, str(run[name])) for name, words in names.items() if name in run]
