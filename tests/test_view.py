"""What the server of `solid view` says is what the library says, and it says it to the page alone."""

import base64
import gzip
import http.client
import json
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from dated import EVERY, GRID, dated_frames
from shared import solid
from solidfield.cli.view import drawing
from solidfield.errors import SolidError
from solidfield.fit import fit
from solidfield.prediction.ask import area_mean, at
from solidfield.prediction.maps import save_maps
from solidfield.run import load
from solidfield.view import assets
from solidfield.view import shown as shown_module
from solidfield.view.export import NONE, export, packed
from solidfield.view.outline import coast_lines, outline_of
from solidfield.view.sensors import Sensors, named_places, sensors_of
from solidfield.view.server import Exhibition, bind
from solidfield.view.shown import Shown
from solidfield.view.try_sensors import with_readings
from viewing import TOKEN, exhibit, serving, some_maps

RING = [[88.305, 22.505], [88.345, 22.505], [88.33, 22.54]]


@pytest.fixture(scope="module")
def maps():
    return some_maps()


@pytest.mark.parametrize("block", [10**9, 100])  # all cells at once, and a row at a time
def test_layers_are_brute_force_over_members(maps, monkeypatch, block):
    monkeypatch.setattr(shown_module, "BLOCK", block)
    shown, members = Shown(maps, "maps.nc"), maps["pm"].values[:, 1, 2]
    outside = ~maps["domain"].values.astype(bool)
    expected = {
        "mean": members.mean(0),
        "std": members.std(0, ddof=1),
        "q:0.05": np.quantile(members, 0.05, axis=0),
        "q:0.37": np.quantile(members, 0.37, axis=0),
        "member:4": members[4],
        "above:42": np.where(outside, np.nan, (members > 42).mean(0)),
    }
    for layer, values in expected.items():
        np.testing.assert_allclose(shown.frame("pm", layer, 1, 2), values, rtol=1e-5, err_msg=layer)
    bare = Shown(maps.drop_vars(["pm_std", "pm_q05"]), "maps.nc")  # what is not stored comes from the members
    for layer in ("std", "q:0.05"):
        np.testing.assert_allclose(bare.frame("pm", layer, 1, 2), expected[layer], rtol=1e-5)
    assert np.array_equal(shown.frame("pm", "member:3", 0, 0, count=5), maps["pm"].values[3:8, 0, 0], equal_nan=True)


def test_a_place_is_answered_as_by_at(maps):
    """From the cells around it alone, also at the very edges and beside a cell outside the domain."""
    shown = Shown(maps, "maps.nc")
    for y, x in [(22.5311, 88.3472), (22.495, 88.345), (22.555, 88.365), (22.5, 88.31), (22.52, 88.33)]:
        law, whole = shown.place("pm", y, x, 1, 0, above=42.0), at(maps, y, x).isel(init_time=1, point=0)
        np.testing.assert_allclose(law["mean"], whole["pm_mean"], rtol=1e-6)
        np.testing.assert_allclose(law["quantiles"]["0.95"], whole["pm_q95"], rtol=1e-6)
        np.testing.assert_allclose(law["above"], (whole["pm"] > 42).mean("member"), rtol=1e-6)
    assert shown.place("pm", 22.5, 88.3, 0, 0)["mean"] == [None] * 3  # outside the domain


def test_without_members_a_place_is_answered_as_stored(maps):
    bare = Shown(maps.drop_vars(["pm", "pm_std"]), "maps.nc")
    law, cell = bare.place("pm", 22.5311, 88.3472, 1, 0, above=42.0), {"init_time": 1, "lat": 3, "lon": 5}
    np.testing.assert_allclose(law["quantiles"]["0.95"], maps["pm_q95"].isel(cell), rtol=1e-6)
    assert "above" not in law
    for layer in ("std", "q:0.4", "member:0", "above:3"):
        with pytest.raises(SolidError, match="holds no members"):
            bare.frame("pm", layer, 0, 0)
    with pytest.raises(SolidError, match="no members"):
        bare.area("pm", RING, 0, 0)


def test_an_area_is_answered_as_by_area_mean(maps):
    law = Shown(maps, "maps.nc").area("pm", RING, 0, 0)
    whole = area_mean(maps, {"type": "Polygon", "coordinates": [RING]})
    np.testing.assert_allclose(law["mean"], whole["pm_mean"].isel(init_time=0), rtol=1e-6)
    np.testing.assert_allclose(law["quantiles"]["0.25"], whole["pm_q25"].isel(init_time=0), rtol=1e-6)
    assert law["cells"] == whole.attrs["cells"]


def test_maps_from_north_to_south_are_turned(maps):
    shown, turned = Shown(maps, "maps.nc"), Shown(maps.isel(lat=slice(None, None, -1)), "maps.nc")
    assert turned.about == shown.about
    np.testing.assert_array_equal(turned.frame("pm", "q:0.4", 0, 1), shown.frame("pm", "q:0.4", 0, 1))
    assert turned.place("pm", 22.521, 88.337, 0, 0) == shown.place("pm", 22.521, 88.337, 0, 0)


def test_long_charts_come_in_stretches_that_join():
    maps = some_maps(members=3, starts=1, leads=70)
    shown = Shown(maps, "maps.nc")
    parts = [shown.place("pm", 22.52, 88.33, 0, first)["mean"] for first in (0, 32, 64)]
    assert [len(part) for part in parts] == [32, 32, 6]
    np.testing.assert_allclose(np.concatenate(parts), maps["pm_mean"].values[0, :, 2, 3], rtol=1e-6)


def test_no_single_cell_sets_the_colours():
    maps = some_maps(H=20, W=20)
    calm = Shown(maps, "maps.nc").about["variables"][0]
    maps["pm"].values[:, :, :, 7, 7] = maps["pm_mean"].values[..., 7, 7] = maps["pm_std"].values[..., 7, 7] = 1e6
    wild = Shown(maps, "maps.nc").about["variables"][0]
    np.testing.assert_allclose(wild["field"], calm["field"], rtol=0.05)
    np.testing.assert_allclose(wild["spread_limits"], calm["spread_limits"], rtol=0.05)


def test_readings_fall_into_the_cells_and_times_of_the_maps(maps, tmp_path):
    path = tmp_path / "new.csv"
    table = {
        "time": ["2024-01-15T08:10Z", "2024-01-15T08:50Z", "2024-01-15T10:00Z", "2024-01-15T10:00Z"],
        "lat": [22.511, 22.511, 22.511, 22.54],
        "lon": [88.321, 88.321, 88.321, 88.35],
        "pm": [10.0, 30.0, 50.0, 7.0],
        "sensor": ["Town hall", "Town hall", "Town hall", "<b>Bus</b>"],
    }
    pd.DataFrame(table).to_csv(path, index=False)
    shown = Shown(maps, "maps.nc", sensors_of(maps, [path], timezone="UTC"))
    assert shown.place("pm", 22.51, 88.32, 0, 0)["read"]["value"] == [20.0, 50.0]  # the mean of two, and one later
    assert shown.frame("pm", "read", 0, 1)[4, 5] == 7.0  # two hours ahead of 08:00
    assert np.isnan(shown.frame("pm", "read", 0, 0)).all()
    names = {one["name"]: (one["y"], one["x"]) for one in shown.about["sensors"]}
    assert names == {"Town hall": (22.511, 88.321), "<b>Bus</b>": (22.54, 88.35)}


def test_readings_on_the_way_of_assimilation_are_those_of_its_members(maps):
    read = np.zeros((2, 3, 6, 7), np.int8)
    read[0, 1, 2, 3] = 1
    shown = Shown(maps.assign(read=(("init_time", "lead_time", "lat", "lon"), read)), "maps.nc")
    found = shown.frame("pm", "read", 0, 1)
    assert np.argwhere(np.isfinite(found)).tolist() == [[2, 3]]
    assert found[2, 3] == shown.frame("pm", "mean", 0, 1)[2, 3]
    assert "read" in shown.about["has"]


def test_a_sensor_that_moves_has_no_place_of_its_own(maps, tmp_path):
    path = tmp_path / "bus.csv"
    table = {"time": ["2024-01-15T08:00Z"] * 4, "lat": [22.5, 22.54, 22.52, 22.52], "lon": 88.32, "pm": 1.0}
    pd.DataFrame({**table, "sensor": ["bus", "bus", "post", "post"]}).to_csv(path, index=False)
    assert named_places([path], GRID)["name"].tolist() == ["post"]


def test_an_imagined_reading_changes_its_cell_alone():
    frames = dataset()
    time = frames["time"].values[3]
    again = with_readings(frames, "pm", time, [{"y": 22.521, "x": 88.339, "value": 99.0}])
    differs = ~np.isclose(again["pm"].values, frames["pm"].values, equal_nan=True)
    assert np.argwhere(differs).tolist() == [[3, 2, 4]]
    assert again["pm"].values[3, 2, 4] == 99.0
    with pytest.raises(SolidError, match="0 imagined sensors"):
        with_readings(frames, "pm", time, [])


def dataset(days=2):
    frames = dated_frames(days)
    axes = {"time": frames.times, "lat": GRID.y, "lon": GRID.x}
    return xr.Dataset({"pm": (("time", "lat", "lon"), frames.values[:, 0])}, axes)


@pytest.fixture(scope="module")
def address(maps):
    with serving(exhibit(maps)) as address:
        yield urlsplit(address)


def answer(address, path, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    connection.request(method, path, body, {"Host": address.netloc, **headers})
    response = connection.getresponse()
    return response.status, response.read(), response


def test_the_page_and_its_pieces_are_served(address, maps):
    status, body, response = answer(address, address.path)
    assert status == 200
    assert b"<canvas" in body
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    asked = f"{address.path}frame?variable=pm&layer=mean&start=0&lead=1"
    status, body, _ = answer(address, asked)
    np.testing.assert_array_equal(np.frombuffer(body, "<f4").reshape(6, 7), maps["pm_mean"].values[0, 1].astype("f4"))
    area = json.dumps({"variable": "pm", "ring": RING, "start": 0, "first": 0})
    status, body, _ = answer(address, f"{address.path}area", "POST", area, Origin=f"http://{address.netloc}")
    assert status == 200
    assert len(json.loads(body)["mean"]) == 3


STRANGERS = {
    "a foreign host": {"Host": "evil.example"},
    "a name that resolves to us": {"Host": "127.0.0.1.evil.example"},
    "the host of another port": {"Host": "127.0.0.1:1"},
    "a foreign origin": {"Origin": "http://evil.example"},
    "no origin at all": {"Origin": "null"},
    "a body of 100 MB": {"Content-Length": "100000000"},
    "a body without end": {"Content-Length": "-1"},
}


@pytest.mark.parametrize("headers", STRANGERS.values(), ids=STRANGERS)
def test_strangers_get_a_refusal_and_nothing_else(address, headers):
    for path, method in ((address.path, "GET"), (f"{address.path}about", "GET"), (f"{address.path}area", "POST")):
        with socket.create_connection((address.hostname, address.port), timeout=5) as line:
            lines = {"Host": address.netloc, "Connection": "close", **headers}
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            line.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode())
            said = b"".join(iter(lambda line=line: line.recv(65536), b""))
        status, body = int(said.split()[1]), said.split(b"\r\n\r\n", 1)[1]
        assert 400 <= status < 500
        assert body in (b"", b"Invalid HTTP request received.")


def test_a_long_body_that_does_not_say_so_is_refused(address):
    def endless():
        for _ in range(200):
            yield b"x" * 1000

    status, body, _ = answer(address, f"{address.path}area", "POST", endless())
    assert status == 413
    assert len(body) < 100


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/wrong-token/",
        "/wrong-token/about",
        f"/{TOKEN}",
        f"/{TOKEN}/../../etc/passwd",
        f"/{TOKEN}/..%2f..%2fetc%2fpasswd",
        f"/{TOKEN}/%2e%2e/server.py",
        f"/{TOKEN}/server.py",
        f"/{TOKEN}/frame?file=7&variable=pm",
        f"/{TOKEN}/frame?file=../maps.nc",
        f"/{TOKEN}/frame?variable=no",
        f"/{TOKEN}/frame?variable=pm&layer=q:nan",
        f"/{TOKEN}/frame?variable=pm&layer=member:99",
        f"/{TOKEN}/frame?variable=pm&start=99",
        f"/{TOKEN}/place?variable=pm&y=0&x=0",
        f"/{TOKEN}/area",
    ],
)
def test_what_is_not_there_cannot_be_asked_for(address, path):
    status, body, _ = answer(address, path)
    assert 400 <= status < 500
    assert b"root:" not in body
    assert len(body) < 300


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b"7", b'{"ring": 3}', b'{"ring": [["a"]]}', b"[" * 60_000])
def test_nonsense_is_a_refusal(address, body):
    assert 400 <= answer(address, f"{address.path}area", "POST", body)[0] < 500


def test_the_server_listens_on_this_machine_unless_named_otherwise():
    ready, hosts = bind("127.0.0.1", 0)
    port = ready.getsockname()[1]
    assert hosts == {f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"}
    with pytest.raises(SolidError, match="give another --port"):
        bind("127.0.0.1", port)
    ready.close()
    with pytest.raises(SolidError, match="every address"):
        bind("0.0.0.0", 0)


def test_packing_is_exact_to_half_a_step():
    values = np.random.default_rng(0).normal(size=(3, 4, 5))
    values[1, 2] = np.nan
    packed_values = packed(values)
    codes = np.frombuffer(gzip.decompress(base64.b64decode(packed_values["data"])), "<u2").reshape(values.shape)
    again = np.where(codes == NONE, np.nan, packed_values["low"] + packed_values["step"] * codes)
    np.testing.assert_allclose(again, values, atol=np.nanmax(values) / 60_000)


def test_the_exported_page_names_nothing_elsewhere(maps, tmp_path):
    hostile = maps.rename(
        {name: str(name).replace("pm", "</script><b>") for name in maps.data_vars if str(name)[:2] == "pm"}
    )
    export(exhibit(hostile, "</script>.nc"), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("</script>") == 2  # the data and the code
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)
    assert not re.findall(r"^(?:import|export) ", page, re.MULTILINE)


def test_layers_are_written_in_the_order_of_the_page(maps, tmp_path):
    export(exhibit(maps, "maps.nc"), tmp_path / "page.html")
    inside = json.loads(re.findall(r'id="embedded">(.*?)</script>', (tmp_path / "page.html").read_text())[0])
    has = [name for name in inside["about"]["files"][0]["has"] if name != "read"]
    assert len(has) > 1
    assert [name for name in (key.split()[-1] for key in inside["fields"]) if name in has] == has


def test_the_page_is_small():
    folder = Path(assets.__file__).parent
    shipped = [*(folder / "page").iterdir(), *folder.glob("coast.*")]
    assert sum(path.stat().st_size for path in shipped) < 1.2e6
    assert sum(map(len, assets.page_files().values())) < 150_000


def test_outlines_are_lines_of_any_geojson(tmp_path):
    ring, line = [[0, 0], [1, 0], [1, 1], [0, 0]], [[5, 5], [6, 6]]
    shapes = [
        {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}},
        {"type": "LineString", "coordinates": line},
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [0, 0]}},
    ]
    path = tmp_path / "city.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    assert outline_of([path]) == [ring, line]
    path.write_text('{"type": "Polygon"}')
    with pytest.raises(SolidError, match="no sound GeoJSON"):
        outline_of([path])


def test_the_verb_exports_maps(maps, tmp_path):
    save_maps(maps, tmp_path / "maps.nc")
    told = json.loads(solid("view", tmp_path / "maps.nc", "--export", tmp_path / "page.html", "--json"))
    assert told["members"] == 12
    assert told["bytes"] == (tmp_path / "page.html").stat().st_size


def test_the_verb_draws_the_maps_of_a_run(tmp_path):
    readings = dated_frames(20)
    t, _, row, column = np.nonzero(np.isfinite(readings.values))
    table = {
        "time": readings.times[t],
        "lat": GRID.y[row],
        "lon": GRID.x[column],
        "pm": readings.values[t, 0, row, column],
    }
    pd.DataFrame(table).to_csv(tmp_path / "new.csv", index=False)
    options = {"cell": "0.01deg", "every": f"{EVERY}h", "timezone": "UTC"}
    fit(tmp_path / "new.csv", tmp_path / "run", model="climatology", preset="smoke", **options)
    with pytest.raises(SolidError, match="--readings"):
        solid("view", tmp_path / "run", "--export", tmp_path / "run.html")
    words = ("--readings", tmp_path / "new.csv", "--members", 5, "--steps", 2)
    solid("view", tmp_path / "run", *words, "--export", tmp_path / "run.html")
    assert (tmp_path / "run.html").stat().st_size > 50_000


def test_a_page_needs_maps_and_at_most_two(tmp_path):
    with pytest.raises(SolidError, match="one, or two beside"):
        solid("view", "a.nc", "b.nc", "c.nc")
    with pytest.raises(SolidError, match=r"end the name in \.html"):  # known before the file is looked for
        solid("view", tmp_path / "nowhere.nc", "--export", tmp_path / "page.txt")
    with pytest.raises(SolidError, match="no maps at"):
        solid("view", tmp_path / "nowhere.nc")


def test_an_imagined_sensor_narrows_the_maps_of_its_run(tmp_path):
    """Kriging believes a reading: the spread in its cell nearly vanishes, and without it the maps are as they were."""
    frames = dataset(40)
    fit(frames, tmp_path / "run", model="kriging", preset="smoke")
    draw = drawing(load(tmp_path / "run"), frames, None, 0, members=30, seed=0)
    first = draw(frames)
    exhibition = Exhibition([Shown(first, "run", Sensors(frames, pd.DataFrame()))], draw=draw)
    rows, columns = np.nonzero(first["observed"].values[0] == 0)
    one = {"y": GRID.y[rows[0]], "x": GRID.x[columns[0]], "value": 45.0}
    told = exhibition.imagine({"variable": "pm", "start": 0, "lead": 0, "sensors": [one]})
    assert told["there"][1] < 0.2 * told["there"][0]
    assert told["all"][1] < told["all"][0]
    assert abs(exhibition.shown[told["number"]].frame("pm", "mean", 0, 0)[rows[0], columns[0]] - 45) < 2
    again = exhibition.imagine({"variable": "pm", "start": 0, "lead": 0, "sensors": [one, one]})
    assert again["number"] == told["number"] == 1  # one set of imagined maps at a time
    assert draw(frames).identical(first)


def test_two_variables_have_masks_of_their_own():
    one, other = some_maps(), some_maps(name="no2")
    masks = ["observed", "never_supervised"]
    both = xr.merge([one.drop_vars(masks), other.drop_vars(masks)], compat="no_conflicts")
    read = np.stack([one["observed"].values, 1 - one["observed"].values], 1)
    both = both.assign(observed=(("init_time", "variable", "lat", "lon"), read)).assign_coords(variable=["pm", "no2"])
    shown = Shown(both, "maps.nc")
    assert [each["name"] for each in shown.about["variables"]] == ["pm", "no2"]
    np.testing.assert_array_equal(shown.frame("no2", "observed", 1, 0), read[1, 1])
    np.testing.assert_allclose(shown.frame("no2", "mean", 0, 1), other["no2_mean"].values[0, 1], rtol=1e-6)
    assert shown.place("no2", 22.52, 88.33, 0, 0)["mean"] == shown.place("pm", 22.52, 88.33, 0, 0)["mean"]


def test_imagined_sensors_need_a_run(maps):
    with pytest.raises(SolidError, match="need a run"):
        Exhibition([Shown(maps, "maps.nc")]).imagine({"variable": "pm", "start": 0, "lead": 0, "sensors": []})


def test_coasts_lie_within_the_bounds_asked_for():
    """Iceland is an island: its coast is there, in whole degrees around it, and nothing of Norway."""
    lines = coast_lines((63.0, -25.0, 67.0, -13.0))
    points = np.concatenate([np.array(line) for line in lines])
    longest = max(lines, key=len)
    assert np.allclose(np.ptp(longest, axis=0), [11, 3.1], atol=0.4)  # degrees from west to east, and to the north
    assert points[:, 0].max() < -10
    assert coast_lines((20.0, -40.0, 25.0, -35.0)) == []  # the open Atlantic
