"""Study 4, ablation: the overlap weight lambda with overlapping masks, and interpolating before the network."""

from __future__ import annotations

from matplotlib.figure import Figure

from ...plot.style import looks, tidy
from ..cell import Result
from ..text import markdown, unknown
from . import catalog, paper
from .catalog import FILLINGS, LAMBDAS
from .measure import StudyCell
from .shelf import Shelf, crps, gap, score, with_error

NOTHING = 0.01  # a relative difference that nobody would act on
REGIONS = {"M_i": "at M_i", "M_o": "at M_o without M_i", "grid": "full grid"}


def lambdas(shelf: Shelf) -> dict[float, Result | None]:
    made = catalog.ablation(shelf.scale)
    return {lam: shelf.get(cell) for lam, cell in zip(LAMBDAS, made, strict=False)}


def fillings(shelf: Shelf) -> dict[str, StudyCell]:
    """What stands before the network: nothing, an interpolation, or the default's laws that start from kriging's."""
    made = catalog.ablation(shelf.scale)
    return dict(zip(FILLINGS, made[len(LAMBDAS) :], strict=True)) | {"kriging prior": made[LAMBDAS.index(0.05)]}


def lambda_table(shelf: Shelf) -> str:
    rows = [(f"{lam:g}", *(with_error(result, region) for region in REGIONS)) for lam, result in lambdas(shelf).items()]
    return markdown(("lambda", *REGIONS.values()), rows)


def filling_table(shelf: Shelf) -> str:
    """Beside Table 1 of the paper."""
    header = ("before the network", *REGIONS.values(), *(f"paper, {words}" for words in REGIONS.values()))
    rows = [
        (fill, *(with_error(shelf.get(cell), region) for region in REGIONS), *paper.beside(paper.STRATEGY.get(fill)))
        for fill, cell in fillings(shelf).items()
    ]
    return markdown(header, rows)


def lambda_words(shelf: Shelf) -> str:
    known = {lam: result for lam, result in lambdas(shelf).items() if result is not None}
    if len(known) < len(LAMBDAS):
        return unknown("lambda")
    values = {lam: crps(result, "grid") or 0.0 for lam, result in known.items()}
    best, worst = (choose(values, key=lambda lam: values[lam]) for choose in (min, max))
    apart = gap(known[best], known[worst], "grid")
    text = (
        f"The lowest CRPS on the grid is at lambda {best:g} ({values[best]:.3f}), the highest at {worst:g} "
        f"({values[worst]:.3f}): {100 * (values[worst] / values[best] - 1):.1f} % apart, "
        f"{'more than' if apart.clear else 'within'} two standard errors. The paper's optimum between "
        f"{paper.LAMBDA[0]} and {paper.LAMBDA[1]} "
    )
    if not apart.clear or values[worst] / values[best] < 1 + NOTHING:
        return text + "cannot be told from the other values: lambda hardly matters here."
    inside = paper.LAMBDA[0] <= best <= paper.LAMBDA[1]
    return text + ("is found here, too." if inside else f"is not found here: it is at {best:g}.")


def filling_words(shelf: Shelf) -> str:
    found = {fill: crps(shelf.get(cell), "grid") for fill, cell in fillings(shelf).items()}
    known = {fill: value for fill, value in found.items() if value is not None}
    if len(known) < len(found):
        return unknown("the fillings")
    ours = sorted(FILLINGS, key=lambda fill: known[fill])
    theirs = sorted(FILLINGS, key=lambda fill: paper.STRATEGY[fill][2])
    ratio = max(known["nearest"], known["rbf"]) / known["none"]
    there = max(paper.STRATEGY["nearest"][2], paper.STRATEGY["rbf"][2]) / paper.STRATEGY["none"][2]
    return (
        f"From best to worst on the grid: {', '.join(ours)}; in the paper: {', '.join(theirs)} "
        f"({'the same order' if ours == theirs else 'another order'}). The worse filling has x {ratio:.2f} the CRPS "
        f"of no filling, in the paper x {there:.2f}. The default, whose laws start from kriging's, has "
        f"{known['kriging prior']:.3f} against {known['none']:.3f} without."
    )


def ablation_figure(shelf: Shelf) -> Figure | None:
    known = {lam: result for lam, result in lambdas(shelf).items() if result is not None}
    if not known:
        return None
    figure = Figure(figsize=(4.8, 3.2), layout="constrained")
    ax = figure.subplots()
    for region, (colour, marker) in looks(list(REGIONS)).items():
        found = [score(result, "crps", region) for result in known.values()]
        values, errors = ([estimate[part] for estimate in found] for part in ("mean", "error"))
        ax.errorbar(range(len(known)), values, errors, color=colour, marker=marker, ms=4, lw=1, label=REGIONS[region])
    ax.set(xlabel="lambda", ylabel="CRPS / std", xticks=range(len(known)), ylim=(0, None))
    ax.set_xticklabels([f"{lam:g}" for lam in known])
    ax.legend(fontsize=7, frameon=False)
    tidy([ax])
    return figure


PARTS = {"lambda": lambda_table, "filling": filling_table, "lambda-words": lambda_words, "filling-words": filling_words}
FIGURES = {"ablation": ablation_figure}
