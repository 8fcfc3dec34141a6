"""The page of `solid view` in a real browser: it shows what the maps hold, calls nobody, and anyone can use it."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import solidfield.view
from solidfield.prediction.ask import area_mean, at
from solidfield.view.export import export
from solidfield.view.server import Exhibition
from solidfield.view.shown import Shown
from viewing import axe_script, chromium, exhibit, named_sensors, serving, some_maps

MARKUP = '<img src=x onerror="document.title=1">&amp;'
FORMAT = Path(solidfield.view.__file__).parent / "page" / "format.js"
DRAWN, ASKED = "#map-a[data-drawn]", "#chart[data-asked]"


@pytest.fixture(scope="module")
def maps():
    return some_maps()


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(maps):
    with serving(exhibit(maps, sensors=named_sensors(maps, ["Town hall"]))) as address:
        yield address


def opened(browser, address, wait=DRAWN, **options):
    """A page that has drawn its first map; what it asked for, and what went wrong in it, stand in its lists."""
    page = browser.new_context(viewport={"width": 1280, "height": 860}, accept_downloads=True, **options).new_page()
    page.set_default_timeout(120_000)  # of a machine with much else to do
    page.asked, page.faults = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda message: message.type == "error" and page.faults.append(message.text))
    page.goto(address)
    page.wait_for_selector(wait)
    return page


def saved(page, button):
    """The rows of a table that a button saves, without its head."""
    with page.expect_download() as download:
        page.click(button)  # once: the page waits for what it still asks its server
    rows = download.value.path().read_text().splitlines()
    return [
        [float(field) if re.fullmatch(r"-?[\d.e+-]+", field) else field for field in row.split(",")] for row in rows[1:]
    ]


LESS = "() => document.querySelector('#imagine-words').innerText.includes('(50 % less)')"


def until(page, happened) -> None:
    """Wait, two minutes at most, for something that no selector tells."""
    for _ in range(1200):
        if happened():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it did not happen")


def test_the_map_that_is_shown_is_the_map_of_the_file(browser, address, maps):
    page = opened(browser, f"{address}#l=q:0.9&n=1&t=2")
    rows = saved(page, "#save-csv")
    expected = np.quantile(maps["pm"].values[:, 1, 2], 0.9, axis=0).ravel()
    values = [row[2] if row[2] != "" else np.nan for row in rows]
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    assert rows[8][:2] == [22.51, 88.31]  # rows run along x first
    with page.expect_download() as picture:
        page.click("#save-png")
    assert picture.value.path().read_bytes()[:4] == b"\x89PNG"
    assert not page.faults


def test_a_click_on_save_waits_for_what_is_still_asked(browser, address, maps):
    """The map of a new time is held back by the server: one click saves that map, and not the one before."""
    page = opened(browser, address)

    def late(route):
        page.wait_for_timeout(400)
        route.continue_()

    page.route("**/frame*", late)
    page.locator("#time").press("ArrowRight")
    values = [row[2] if row[2] != "" else np.nan for row in saved(page, "#save-csv")]
    np.testing.assert_allclose(values, maps["pm_mean"].values[0, 1].ravel(), rtol=1e-5)
    page.route("**/about", late)
    page.reload(wait_until="commit")
    assert len(saved(page, "#save-csv")) == maps["pm_mean"][0, 0].size
    assert not page.faults


def test_a_link_is_followed_though_an_older_view_is_written_meanwhile(browser, address):
    page = opened(browser, address)
    page.evaluate("() => { location.hash = 'l=member:3'; history.replaceState(null, '', '#l=mean'); }")
    page.wait_for_selector("#map-a[aria-label*='member 4']")
    until(page, lambda: "member" in page.url)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_times_are_written_as_fine_as_they_are():
    start = 1_714_521_600_000
    times, lengths = [start, start + 85_000, start + 85_200, start + 85_250], [0, 200, 90_000, 5_400_000]
    code = f"""import {{ instant, span }} from {json.dumps(FORMAT.as_uri())};
        console.log(JSON.stringify([{times}.map((t) => instant(t, "UTC")), {lengths}.map(span)]))"""
    said = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=True)
    clocks = ["00:00", "00:01:25", "00:01:25.2", "00:01:25.250"]
    assert json.loads(said.stdout) == [[f"1 May 2024, {c} UTC" for c in clocks], ["0 h", "0.2 s", "1.5 min", "1.5 h"]]


def test_a_place_and_an_area_answer_as_the_library_does(browser, address, maps):
    page = opened(browser, f"{address}#p=22.5311,88.3472&n=1", ASKED)
    law = at(maps, 22.5311, 88.3472).isel(init_time=1, point=0)
    np.testing.assert_allclose([row[1] for row in saved(page, "#save-law")], law["pm_mean"], rtol=1e-5)
    page.goto(f"{address}#a=88.305,22.505,88.345,22.505,88.33,22.54")
    page.wait_for_selector("#chart[data-asked=area]")
    ring = [[88.305, 22.505], [88.345, 22.505], [88.33, 22.54]]
    mean = area_mean(maps, {"type": "Polygon", "coordinates": [ring]}).isel(init_time=0)
    np.testing.assert_allclose([row[2] for row in saved(page, "#save-law")], mean["pm_q05"], rtol=1e-5)


def test_the_exported_page_says_the_same_and_calls_nobody(browser, maps, tmp_path):
    export(exhibit(maps), tmp_path / "page.html")
    page = opened(browser, f"{(tmp_path / 'page.html').as_uri()}#l=q:0.37&t=1&p=22.5311,88.3472", ASKED)
    values = [row[2] if row[2] != "" else np.nan for row in saved(page, "#save-csv")]
    np.testing.assert_allclose(values, np.quantile(maps["pm"].values[:, 0, 1], 0.37, axis=0).ravel(), rtol=1e-4)
    law = at(maps, 22.5311, 88.3472).isel(init_time=0, point=0)
    np.testing.assert_allclose([row[2] for row in saved(page, "#save-law")], law["pm_q05"], rtol=1e-4)
    page.goto(page.url.split("#")[0] + "#a=88.305,22.505,88.345,22.505,88.33,22.54")
    page.wait_for_selector("#chart[data-asked=area]")
    ring = [[88.305, 22.505], [88.345, 22.505], [88.33, 22.54]]
    mean = area_mean(maps, {"type": "Polygon", "coordinates": [ring]}).isel(init_time=0)
    np.testing.assert_allclose([row[1] for row in saved(page, "#save-law")], mean["pm_mean"], rtol=1e-4)
    assert all(urlsplit(url).scheme in ("file", "blob", "data") for url in page.asked)
    assert not page.faults


def test_a_click_a_drag_and_keys_ask_and_a_link_brings_the_view_back(browser, address):
    page = opened(browser, address)
    box = page.locator("#map-a").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.click(*middle)
    page.wait_for_selector(ASKED)
    page.mouse.move(middle[0] - 90, middle[1] - 90)
    page.mouse.down()
    page.mouse.move(*middle, steps=3)
    page.mouse.up()
    page.wait_for_selector("#chart[data-asked=area]")
    page.click("#layer-a label:has-text('Chance')")
    page.locator("#time").press("ArrowRight")
    until(page, lambda: "t=1" in page.url)
    page.wait_for_timeout(1500)  # what is shown follows the link
    words, before = page.inner_text("#ask-words"), saved(page, "#save-csv")
    again = opened(browser, page.url, "#chart[data-asked=area]")
    assert again.inner_text("#ask-words") == words
    assert saved(again, "#save-csv") == before
    assert "chance above" in words
    page.click("#zoom")
    page.click("#whole")
    page.wait_for_selector("#whole", state="hidden")
    page.focus("#map-a")
    page.keyboard.press("ArrowUp")
    assert "km from the nearest sensor" in page.inner_text("#readout")
    page.keyboard.press("Enter")
    page.wait_for_selector("#chart[data-asked]:not([data-asked=area])")
    assert not page.faults


def test_an_imagined_sensor_is_placed_dragged_and_shown_beside(browser, maps):
    """The run behind the page is asked once for each place and value; what it answers is the second map."""
    asked = []

    def draw(frames):
        asked.append(np.argwhere(frames["pm"].values[0] != sensors.frames["pm"].values[0]).tolist())
        return maps.isel(init_time=[0]).assign(pm_std=maps["pm_std"].isel(init_time=[0]) / 2)

    sensors = named_sensors(maps.fillna({"pm_given": 0.0}), ["Town hall"])
    with serving(Exhibition([Shown(maps, "run", sensors)], draw=draw)) as address:
        page = opened(browser, address)
        box = page.locator("#map-a").bounding_box()
        page.click("#imagine-place")
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector("#map-b:not([hidden])")
        page.wait_for_function(LESS)
        page.fill("#imagine-value", "77")
        page.press("#imagine-value", "Enter")
        until(page, lambda: len(asked) == 2)
        page.wait_for_function(LESS)
        page.wait_for_timeout(1500)  # the link follows
        again = opened(browser, page.url, "#map-b:not([hidden])")
        again.wait_for_function(LESS)
        page.click("#imagine-clear")
        page.wait_for_selector("#map-b", state="hidden")
        assert len(asked) == 3
        assert all(len(cells) == 1 for cells in asked)
        assert not page.faults


def test_the_page_asks_its_own_server_alone(browser, address):
    page = opened(browser, f"{address}#l=member:0&b=std&p=22.52,88.33", ASKED)
    page.click("#layer-a button")  # flicker
    page.click("#play")
    own = urlsplit(address).netloc
    until(page, lambda: len(page.asked) > 10)
    assert {urlsplit(url).netloc for url in page.asked if not url.startswith("data:")} == {own}


def test_markup_in_names_stays_text(browser, tmp_path):
    maps = some_maps(name=MARKUP).assign_attrs(title=MARKUP)
    for name in maps.data_vars:
        maps[name].attrs["units"] = MARKUP
    hostile = Exhibition([Shown(maps, MARKUP, named_sensors(maps, [MARKUP], MARKUP)), Shown(maps, MARKUP)])
    export(hostile, tmp_path / "page.html")
    with serving(hostile) as address:
        for where in (address, f"{(tmp_path / 'page.html').as_uri()}"):
            page = opened(browser, f"{where}#p=22.51,88.32&b=mean&w=1", ASKED)
            page.click("#sensors summary")
            page.wait_for_selector("#sensor-rows button")
            page.mouse.move(400, 400)
            assert page.locator("img").count() == 0
            assert MARKUP in page.inner_text("#title")
            assert MARKUP in page.inner_text("#sensor-rows")
            assert MARKUP in page.inner_text("#ask-words")
            assert page.title() != "1"
            assert not page.faults


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_serious(browser, address, width, scheme):
    script = axe_script()
    page = opened(browser, f"{address}#l=above:45&p=22.52,88.33&b=std", ASKED, color_scheme=scheme, bypass_csp=True)
    page.set_viewport_size({"width": width, "height": 844})
    page.click("#sensors summary")
    page.add_script_tag(content=script)
    found = page.evaluate("async () => (await axe.run()).violations")
    grave = [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert not grave, json.dumps(grave, indent=1)


def test_nothing_runs_over_the_edge_of_a_narrow_screen(browser, maps):
    names = [
        f"Monitoring station number {k} behind the old municipal waterworks of the northern district"
        for k in range(100)
    ]
    with serving(exhibit(maps, sensors=named_sensors(maps, names))) as address:
        page = opened(browser, f"{address}#p=22.52,88.33&b=std&w=1", ASKED)
        page.set_viewport_size({"width": 390, "height": 844})
        page.click("#sensors summary")
        page.wait_for_timeout(200)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        assert page.locator("#sensor-rows tr").count() == 100
