"""Figures have the panels they promise, on shared scales, with every sensor drawn, and can be saved."""

from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from shared import shows_something, standard_normal
from solidfield.errors import SolidError
from solidfield.grid import Grid
from solidfield.plot.comparison import bins_figure, models_figure, series_figure
from solidfield.plot.fields import scene as scene_figure
from solidfield.plot.fields import taught
from solidfield.plot.ground import coordinates
from solidfield.plot.reliability import reliability_figure
from solidfield.scores.estimate import Estimate
from solidfield.scores.metrics import select
from solidfield.scores.table import Score

K, N, H, W = 30, 5, 12, 16


drawn = partial(standard_normal, key="plot")


@pytest.fixture
def scene() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Members, truth, mask."""
    return drawn(K, H, W), drawn(H, W), drawn(H, W, key="mask") > 1


def titles(figure: Figure) -> list[str]:
    return [ax.get_title() for ax in figure.axes if ax.get_title()]


def image(figure: Figure, title: str):
    return next(ax for ax in figure.axes if ax.get_title() == title).images[0]


def shown(x, y, mask, grid=None, **options):
    return scene_figure(x, np.where(mask, y, np.nan), y, grid or Grid((H, W)), what="truth", **options)


def test_maps_of_the_field_share_one_scale_and_spread_and_error_another(scene) -> None:
    x, y, mask = scene
    figure = shown(x, y, mask)
    scales = {title: image(figure, title).get_clim() for title in titles(figure)}
    widths = {"predicted spread", "error of the mean"}
    assert set(scales) == {"readings given", "predicted mean", "truth", "a member"} | widths
    assert len({scales[title] for title in widths}) == 1
    assert len({scales[title] for title in scales.keys() - widths}) == 1
    low, high = scales["truth"]
    assert low == -high  # both signs: white is zero
    low, high = image(shown(x + 300, y + 300, mask), "truth").get_clim()
    assert 290 < low < 300 < high < 310
    assert np.allclose(image(figure, "predicted mean").get_array(), x.mean(axis=0))
    assert np.allclose(image(figure, "error of the mean").get_array(), np.abs(x.mean(axis=0) - y))
    assert np.allclose(image(figure, "predicted spread").get_array(), x.std(axis=0, ddof=1))


def test_every_sensor_is_drawn_where_it_stands_and_nothing_else_is_given(scene) -> None:
    x, y, mask = scene
    grid = Grid.box(H, W, side=3.0)
    figure = shown(torch.from_numpy(x), y, mask, grid)
    rows, columns = np.nonzero(mask)
    for title in ("predicted spread", "error of the mean"):
        ax = next(ax for ax in figure.axes if ax.get_title() == title)
        dots = ax.collections[0].get_offsets()
        assert np.allclose(dots, np.stack([grid.x[columns], grid.y[rows]], axis=1))
    assert np.ma.count(image(figure, "readings given").get_array()) == mask.sum()


def test_a_point_forecast_has_neither_spread_nor_members(scene) -> None:
    x, y, mask = scene
    assert set(titles(shown(x[:1], y, mask))) == {"readings given", "predicted mean", "truth", "error of the mean"}


@pytest.mark.parametrize("members", [K, 1])
@pytest.mark.parametrize("shape", [(H, W), (24, 8), (8, 24)])
def test_panels_below_one_another_are_of_one_width(members: int, shape: tuple[int, int]) -> None:
    x, y = drawn(members, *shape), drawn(*shape)
    figure = shown(x, y, np.ones(shape, bool), Grid(shape), label="vorticity")
    figure.draw_without_rendering()
    edges = {ax.get_title(): ax.get_position() for ax in figure.axes if ax.get_title()}
    below = {"predicted mean": "error of the mean"}
    if members > 1:
        below |= {"readings given": "predicted spread", "truth": "a member"}
    for upper, lower in below.items():
        assert edges[lower].x0 == pytest.approx(edges[upper].x0, abs=1e-3)
        assert edges[lower].x1 == pytest.approx(edges[upper].x1, abs=1e-3)
        assert edges[lower].y1 < edges[upper].y0


def test_cells_outside_the_domain_are_left_blank(scene) -> None:
    x, y, mask = scene
    domain = np.ones((H, W), dtype=bool)
    domain[:, :4] = False
    figure = shown(x, np.where(domain, y, np.nan), mask & domain, Grid((H, W), domain=domain))
    for title in set(titles(figure)) - {"readings given"}:
        assert np.ma.count(image(figure, title).get_array()) == domain.sum()


def test_readings_of_another_grid_are_named(scene) -> None:
    x, y, mask = scene
    with pytest.raises(SolidError, match="do not fit a grid"):
        shown(x, y[:4], mask[:4])


def test_calibration_has_four_views_with_flat_ranks_counted_once() -> None:
    x, y, distance = drawn(K, N, H, W), drawn(N, H, W), np.abs(drawn(N, H, W, key="distance"))
    figure = reliability_figure(select(x, y), distance.ravel())
    ranks, coverage, spread, away = figure.axes
    bars = [bar.get_height() for bar in ranks.patches]
    assert np.mean(bars) == pytest.approx(1)  # a density: whatever the number of bins, flat is 1
    assert all(np.isfinite(line.get_xydata()).all() for ax in (coverage, spread, away) for line in ax.lines)
    nominal, measured = coverage.lines[1].get_xydata().T
    assert np.abs(nominal - measured).max() < 0.1
    assert [text.get_text() for text in away.get_legend().get_texts()] == [
        "error (root mean square)",
        "spread",
        "CRPS",
    ]


def test_calibration_shows_no_interval_that_the_members_do_not_span() -> None:
    figure = reliability_figure(select(drawn(5, N, H, W), drawn(N, H, W)))
    assert len(figure.axes) == 3
    assert figure.axes[1].lines[1].get_xdata().max() <= 4 / 6


def test_figures_are_saved_and_leave_no_trace(scene, tmp_path: Path) -> None:
    x, y, mask = scene
    before = dict(matplotlib.rcParams)
    shown(x, y, mask, title="a scene", label="vorticity").savefig(tmp_path / "maps.png")
    reliability_figure(select(x[:, None], y[None], mask[None])).savefig(tmp_path / "calibration.png")  # one field
    assert shows_something(tmp_path / "maps.png")
    assert shows_something(tmp_path / "calibration.png")
    assert dict(matplotlib.rcParams) == before


def test_a_scene_shows_what_was_given_predicted_and_read_on_one_scale(scene) -> None:
    x, y, mask = scene
    given, later = np.where(mask, y, np.nan), np.where(~mask, y, np.nan)
    figure = scene_figure(x, given, later, Grid((H, W)), above=0.5)
    limits = {
        image(figure, name).get_clim() for name in ("readings given", "predicted mean", "read in fact (held out)")
    }
    assert len(limits) == 1
    widths = {image(figure, name).get_clim() for name in ("predicted spread", "error of the mean")}
    assert len(widths) == 1
    chance = image(figure, "chance of more than 0.5")
    assert np.allclose(chance.get_array(), (x > 0.5).mean(axis=0))
    assert chance.get_clim() == (0, 1)
    assert np.ma.count(image(figure, "error of the mean").get_array()) == (~mask).sum()
    alone = titles(scene_figure(x[:1], given, later, Grid((H, W)), above=0.5))
    assert not {"predicted spread", "chance of more than 0.5"} & set(alone)  # a point forecast has neither


def test_cells_are_counted_by_who_taught_them() -> None:
    never, held = np.zeros((H, W), dtype=bool), np.zeros((H, W), dtype=bool)
    never[:3], held[2] = True, True
    figure = taught(never, {"held-out sensors": held}, Grid((H, W)))
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == [
        f"taught by readings: {(H - 3) * W} cells",
        f"never taught: {2 * W} cells",
        f"held-out sensors: {W} cells",
    ]


def test_models_and_bins_are_drawn_at_their_means_with_their_intervals() -> None:
    score, single = Estimate(2.0, 1.5, 3.0, 0.4), Estimate(4.0)
    (ax,) = models_figure({"all": {"ours": score, "rival": single}}).axes
    assert [line.get_xdata().tolist() for line in ax.lines] == [[4.0], [1.5, 3.0], [2.0]]
    about = {"model": "ours", "variable": "pm", "lead": 1, "region": "all", "members": 20, "cases": 7, "groups": 7}
    row = Score(**about, std=1.0, cells=7, metrics={"crps": score, "coverage_90": Estimate(0.9, 0.8, 1.0, 0.1)})
    empty = Score(**about, std=1.0, cells=0, metrics={"crps": None, "coverage_90": None})
    error, honest, count = bins_figure({"ours": [row, empty, row]}, ["0", "1", "2-3"], "hour").axes
    assert error.lines[0].get_xdata().tolist() == [0, 2]  # an empty bin is no point
    assert [bar.get_height() for bar in count.patches] == [7, 0, 7]
    assert [tick.get_text() for tick in honest.get_xticklabels()] == ["0", "1", "2-3"]


def test_a_series_tells_readings_inside_from_those_outside() -> None:
    quantiles = np.stack([np.full((4, 1), value) for value in (0.0, 1.0, 2.0)])
    readings = np.array([[1.5], [np.nan], [2.5], [0.0]])
    figure = series_figure(quantiles, readings, ["a place"], [(0, "one day"), (2, "another")])
    points = {line.get_label(): line.get_xdata().tolist() for line in figure.axes[0].lines if line.get_marker() == "o"}
    assert points == {"reading inside": [0, 3], "reading outside": [2]}
    bands = figure.axes[0].collections
    assert len(bands) == 2  # no band across the gap


def test_a_day_of_one_frame_is_seen_in_a_series() -> None:
    """Every row whose law is known lies within the width of some line, also between rows that are not known."""
    middle = np.array([1.0, 2.0, np.nan, 3.0, np.nan, 4.0])[:, None]
    figure = series_figure(np.stack([middle - 1, middle, middle + 1]), middle * np.nan, ["a"], [(0, "one"), (5, "two")])
    medians = [line for line in figure.axes[0].lines if line.get_linestyle() == "-" and line.get_linewidth() == 1.2]
    drawn_at = [(min(line.get_xdata()), max(line.get_xdata())) for line in medians]
    assert all(high > low for low, high in drawn_at)
    covered = [any(low <= row <= high for low, high in drawn_at) for row in range(6)]
    assert covered == np.isfinite(middle[:, 0]).tolist()
    assert len(figure.axes[0].collections) == len(medians) == 3


def test_whiskers_of_ranks_resample_groups() -> None:
    """All cells in one group: no whiskers; the heights stay."""
    x, y = drawn(K, N, H, W), drawn(N, H, W)
    cells = select(x, y)
    each, together = (reliability_figure(cells, groups=g).axes[0] for g in (None, np.zeros(cells.truth.size)))
    assert [bar.get_height() for bar in each.patches] == pytest.approx([bar.get_height() for bar in together.patches])
    lengths = [
        np.ptp([segment[:, 1] for segment in ax.collections[0].get_segments()], axis=1) for ax in (each, together)
    ]
    assert lengths[0].max() > 0.05
    assert lengths[1].max() == 0


def test_a_real_place_has_coordinates_and_a_true_scale_bar(scene) -> None:
    """The bar is as long as it says: its share of the map's width is its length by the width in kilometres."""
    x, y, mask = scene
    grid = Grid((H, W), (0.01, 0.01), (60.0, 10.0), axes=("lat", "lon"), units="degrees")
    figure = shown(x, y, mask, grid, title="Oslo")
    figure.draw_without_rendering()
    first = figure.axes[0]
    assert [tick.get_text()[-1] for tick in (*first.get_xticklabels(), *first.get_yticklabels())].count("N") > 1
    bar = next(artist for artist in first.artists if hasattr(artist, "size_bar"))
    drawn = bar.size_bar.get_children()[0].get_width()  # degrees
    width = drawn * 111.195 * np.cos(np.deg2rad(grid.y.mean()))
    assert bar.txt_label.get_text() == f"{width:.0f} km"
    assert np.isclose(first.get_aspect(), 1 / np.cos(np.deg2rad(grid.y.mean())))
    assert not shown(x, y, mask).axes[0].get_xticks().size  # a grid without units lies nowhere


@pytest.mark.parametrize("latitude", [0.0, 60.0, -75.0])
def test_labels_of_coordinates_never_overlap(latitude) -> None:
    """On a map as small as those of a scene, whatever its cells are."""
    for step in (0.0003, 0.001, 0.013, 0.7):
        grid = Grid((H, W), (step, step), (latitude, -177.0), axes=("lat", "lon"), units="degrees")
        figure = Figure(figsize=(2.3, 2.3))
        ax = figure.subplots()
        ax.imshow(np.zeros((H, W)), extent=(grid.x[0], grid.x[-1], grid.y[0], grid.y[-1]))
        coordinates(ax, grid)
        figure.canvas.draw()
        for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_text()]
            assert len(boxes) > 1
            assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
