"""Cards of notebooks: small, without scripts, and what they show is what is there."""

import io
import json
import re

import numpy as np
from matplotlib.image import imread

from dated import dated_store, fitted_run
from solidfield.prediction.card import CLEAR, card, maps_card, picture, png
from solidfield.prediction.maps import Maps, open_maps, save_maps
from solidfield.run import load
from viewing import some_maps

LARGEST = 60_000


def test_the_picture_has_the_colours_it_was_given():
    colours = np.array([[255, 0, 0], [0, 128, 0], [7, 8, 9]], np.uint8)
    codes = np.array([[0, 1], [2, CLEAR]], np.uint8)
    pixels = np.round(255 * imread(io.BytesIO(png(codes, colours)))).astype(int)
    assert pixels[..., :3][[0, 0, 1], [0, 1, 0]].tolist() == colours.tolist()
    assert pixels[1, 1, 3] == 0
    assert pixels[0, 0, 3] == 255


def test_a_card_stays_small_whatever_the_grid():
    values = np.random.default_rng(0).normal(size=(500, 700))
    drawn = picture(values, np.linspace(0, 50, 500), np.linspace(0, 70, 700), "mean of pm", "m", values > 1)
    assert len(card("noise", {}, [drawn, drawn])) < LARGEST


def test_maps_show_themselves_and_stay_datasets(tmp_path):
    save_maps(some_maps(), tmp_path / "maps.nc")
    maps = open_maps(tmp_path / "maps.nc")
    html = maps._repr_html_()
    assert len(html) < LARGEST
    assert "12" in re.search(r"members</td><td[^>]*>(\d+)", html)[1]
    assert html.count("<svg") == 2
    assert not re.search(r"<script|on\w+=|https?:", html)
    assert isinstance(maps.isel(init_time=[0]), Maps)
    assert "xr-wrap" in maps.mean("lead_time")._repr_html_()  # no longer maps: as xarray shows it
    np.testing.assert_array_equal(maps["pm"].values, some_maps()["pm"].values)


def test_markup_in_a_card_is_text():
    html = maps_card(some_maps(name="<b>x").assign_attrs(title="<script>"))
    assert "<b>x" not in html
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_run_shows_its_verdict_where_there_is_one(tmp_path):
    fitted_run(tmp_path / "run", dated_store(tmp_path / "pairs"))
    run = load(tmp_path / "run")
    assert "verdict</td>" not in run._repr_html_()
    (tmp_path / "run-report").mkdir()
    told = {"verdict": {"headline": "Kriging is enough & honest.", "map": "The map holds."}}
    (tmp_path / "run-report" / "scores.json").write_text(json.dumps(told))
    html = run._repr_html_()
    assert "Kriging is enough &amp; honest." in html
    assert f"{int((~run.never_supervised).sum())} of 42 cells" in html
    assert len(html) < LARGEST
