"""What cannot be done is refused before it is begun: bombs, links, tampered files, options that mean nothing.

And what was begun and stopped leaves nothing half behind, and can be gone on with.
"""

import json
import os
import resource
import subprocess
import sys

import h5py
import netCDF4
import numpy as np
import pytest
import torch
import xarray as xr
from typer.testing import CliRunner

import tiny
from city import CENTRE, GRID, city, city_run
from shared import solid
from solidfield import Grid as Cells
from solidfield import Scaling, Source, Spec, build, draw, load, quality, read_frames
from solidfield import grid as grid_readings
from solidfield.cli import app, show
from solidfield.disk import digest, save_dataset
from solidfield.errors import SolidError


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """readings.csv, frames.nc of them, and a run."""
    folder = tmp_path_factory.mktemp("city")
    city().to_csv(folder / "readings.csv", index=False)
    grid_readings(folder / "readings.csv", folder / "frames.nc", cell="0.01deg", every="1h")
    city_run(folder / "run")
    return folder


def declared(path, frames, rows, columns):
    """A NetCDF file of this size in which one value was written."""
    with netCDF4.Dataset(path, "w") as file:
        for name, size, units in (
            ("time", frames, "hours since 2024-01-01"), ("lat", rows, "degrees_north"), ("lon", columns, "degrees_east")
        ):  # fmt: skip
            file.createDimension(name, size)
            axis = file.createVariable(name, "f8", (name,), zlib=True)
            axis.units = units
            axis[:] = np.arange(size) if name == "time" else np.linspace(10, 20, size)
        chunks = (1, min(rows, 500), min(columns, 500))
        pm = file.createVariable("pm", "f4", ("time", "lat", "lon"), chunksizes=chunks, zlib=True, fill_value=np.nan)
        pm[0, 0, 0] = 3.0
    return path


@pytest.mark.parametrize("size", [(1000, 10_000, 10_000), (2, 50_000, 250_000)])
def test_a_small_file_that_declares_gigabytes_is_refused(at, size, tmp_path):
    bomb = declared(tmp_path / "bomb.nc", *size)
    assert bomb.stat().st_size < 5_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for words in (
        ("check", bomb),
        ("grid", bomb, "--out", tmp_path / "out.nc"),
        ("train", bomb, "--out", tmp_path / "run", "--preset", "smoke"),
        ("predict", at / "run", bomb, "--where", CENTRE),
        ("train", at / "readings.csv", "--out", tmp_path / "run", "--preset", "smoke", "--static", bomb),
    ):
        with pytest.raises(SolidError, match=r"declares .* GiB in .* kB"):
            solid(*words)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bomb.nc"]


@pytest.mark.parametrize(
    "words",
    [
        ("train", "readings.csv", "--out", "new", "--preset", "smoke", "--set", "train.batch=1000000000", *GRID),
        ("predict", "run", "readings.csv", "--where", CENTRE, "--members", 10**9),
        ("predict", "run", "readings.csv", "--where", CENTRE, "--members", 3, "--max-memory", "inf"),
        ("evaluate", "run", "--members", 10**9, "--out", "new"),
        ("grid", "readings.csv", "--out", "new.nc", "--cell", "0.00001deg", "--every", "1h"),
        ("grid", "readings.csv", "--out", "new.nc", "--cell", "0.01deg", "--every", "0.001s"),
    ],
)
def test_sizes_are_known_beforehand(at, words):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SolidError, match="GiB"):
        solid(*(at / word if word in ("readings.csv", "run", "new", "new.nc") else word for word in words))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    assert not (at / "new.nc").exists()


@pytest.mark.parametrize("kind", ["link", "storage", "virtual"])
def test_a_file_cannot_pull_in_another(kind, tmp_path):
    """External links, external storage and virtual data sets would bring any file that the user may read."""
    with h5py.File(tmp_path / "secret.h5", "w") as secret:
        secret["pm"] = np.full((4, 3, 3), 42.0, "f4")
    (tmp_path / "secret.bin").write_bytes(np.full((4, 3, 3), 42.0, "f4").tobytes())
    path = declared(tmp_path / "readings.nc", 4, 3, 3)
    assert read_frames(path)["pm"].shape == (1, 3, 3)
    with h5py.File(path, "a") as file:
        del file["pm"]
        if kind == "link":
            file["pm"] = h5py.ExternalLink("secret.h5", "/pm")
        elif kind == "storage":
            file.create_dataset("pm", (4, 3, 3), "f4", external=[(tmp_path / "secret.bin", 0, h5py.h5f.UNLIMITED)])
        else:
            layout = h5py.VirtualLayout((4, 3, 3), "f4")
            layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "pm", (4, 3, 3))
            file.create_virtual_dataset("pm", layout)
    with pytest.raises(SolidError, match="takes 'pm' from another file"):
        read_frames(path)


def sealed_again(run, change):
    """The run after someone changed run.json and its checksum."""
    document = json.loads((run / "run.json").read_text())
    del document["sha256"]
    change(document)
    (run / "run.json").write_text(json.dumps(document | {"sha256": digest(document)}))


CHANGES = {
    "format": lambda info: info.update(format=99),
    "no data": lambda info: info.pop("data"),
    "no model": lambda info: info.update(model=None),
    "another grid": lambda info: info["data"]["grid"].update(shape=[10**6, 10**6]),
    "no shape": lambda info: info["data"]["grid"].update(shape="large"),
    "one axis": lambda info: info["data"]["grid"].update(axes=["x", "x"]),
    "no spread": lambda info: info["scaling"].update(std=[0.0]),
    "two means": lambda info: info["scaling"].update(mean=[1.0, 2.0]),
    "no transform": lambda info: info["scaling"].update(transforms=["cube"], offsets=[0.0]),
    "leads": lambda info: info["data"].update(leads="all"),
    "step": lambda info: info["data"].update(step="an hour"),
    "clock": lambda info: info["data"].update(clock={"anchor": "ceiling"}),
    "name": lambda info: info["data"].update(variables=["lat"]),
    "model": lambda info: info["model"].update(name="oracle"),
    "options": lambda info: info["model"].update(options={"width": 5}),
    "zone": lambda info: info.update(reading={"timezone": "Mars/Olympus"}),
    "errors": lambda info: info.update(reading={"errors": {}}),
    "files": lambda info: info["files"].clear(),
    "versions": lambda info: info.update(versions=[]),
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda name: name.replace(" ", "-"))
def test_a_tampered_run_is_refused_in_a_line(at, change, tmp_path):
    import shutil

    shutil.copytree(at / "run", tmp_path / "run")
    sealed_again(tmp_path / "run", CHANGES[change])
    with pytest.raises(SolidError, match=r"^[^\n]*$") as refused:
        load(tmp_path / "run")
    assert str(tmp_path / "run") in str(refused.value) or "'" in str(refused.value)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("grid", "--timezone", "+99:99"), r"\+99:99"),
        (("grid", "--date-format", "%Q"), "%Q"),
        (("grid", "--cell", "1e400km"), "1e400km"),
        (("grid", "--cell", "1e300km"), "larger than the Earth"),
        (("grid", "--cell", "1e-300km"), "too small"),
        (("grid", "--every", "1e-12s"), "1e-12s"),
        (("grid", "--max-memory", "nan"), "max_memory"),
        (("train", "--offset", "nan", "--transform", "log"), "offset nan"),
        (("train", "--transform", "cube"), "cube"),
        (("train", "--lead", "-1"), "-1"),
        (("train", "--hold-sensors", "2"), "sensors = 2"),
        (("train", "--hold-fold", "11/10"), "third of ten"),
        (("train", "--hold-list", "nowhere.csv"), "nowhere.csv"),
        (("train", "--model", "best"), "best"),
        (("train", "--set", "model.options.wings=2"), "wings"),
        (("train", "--minutes", "0"), "minutes"),
    ],
)
def test_an_option_that_means_nothing_is_one_line_and_leaves_nothing(words, why, tmp_path):
    city().to_csv(tmp_path / "readings.csv", index=False)
    verb, *options = words
    place = [] if "--cell" in options or "--every" in options else list(GRID)
    place += ["--every", "1h"] if "--cell" in options else ["--cell", "0.01deg"] if "--every" in options else []
    preset = ["--preset", "smoke"] if verb == "train" else []
    with pytest.raises(SolidError, match=why):
        solid(verb, tmp_path / "readings.csv", "--out", tmp_path / "out.nc", *place, *preset, *options)
    assert [path.name for path in tmp_path.iterdir()] == ["readings.csv"]


@pytest.mark.parametrize("options", [{"members": 0}, {"members": 1}, {"scenes": -1}, {"scenes": 0}, {"steps": 0}])
def test_an_evaluation_of_nothing_is_refused(at, options):
    with pytest.raises(SolidError, match=f"{next(iter(options))} is {next(iter(options.values()))}"):
        load(at / "run").evaluate(out=at / "report", **options)
    assert not (at / "report").exists()


@pytest.mark.parametrize("options", [{"level": 2.0}, {"level": 0.0}, {"least": 0}, {"most": 0}])
def test_quality_takes_what_means_something(at, options):
    with pytest.raises(SolidError, match=next(iter(options))):
        quality(at / "frames.nc", **options)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"type":"GeometryCollection","geometries":[' * 5000])
def test_json_of_any_depth_is_one_line(at, text):
    (at / "deep.geojson").write_text(text)
    with pytest.raises(SolidError, match="no GeoJSON"):
        solid("predict", at / "run", at / "readings.csv", "--area", at / "deep.geojson", "--members", 3)


@pytest.mark.parametrize("length", [70_000, 200_000, 900_000])
def test_a_long_first_line_is_read(length, tmp_path):
    row = f"2024-01-01T00:00Z,22.5,88.3,4,{'x' * length}\n"
    (tmp_path / "long.csv").write_text("time,lat,lon,pm,remark\n" + row + "2024-01-01T01:00Z,22.5,88.3,6,\n")
    assert grid_readings(tmp_path / "long.csv", cell="0.01deg", every="1h")["pm"].values.ravel().tolist() == [4, 6]
    (tmp_path / "longer.csv").write_text("time,lat,lon,pm,remark\n" + row[:-1] + "x" * (1 << 20))
    with pytest.raises(SolidError, match="longer than 1,048,576 bytes"):
        grid_readings(tmp_path / "longer.csv", cell="0.01deg", every="1h")


def test_what_holds_a_reading_holds_all_its_digits():
    """Standard units and back round the seventh digit: then a member would miss the reading it was pinned to."""
    values = torch.rand(2, 1, 6, 6) * 100
    source = Source.of(values, torch.rand(2, 1, 6, 6) < 0.5, torch.zeros(2))
    model = build("persistence", Spec(Cells((6, 6)), 1))
    drawn = draw(model, Scaling((31.7,), (0.37,)), source, members=4)
    seen = source.mask.numpy()
    for member in drawn.members[:, :, 0]:
        np.testing.assert_array_equal(member[seen], values.numpy()[seen])
    np.testing.assert_array_equal(drawn.mean[:, 0][seen], values.numpy()[seen])
    assert (drawn.std[:, 0][seen] == 0).all()


def coordinates_say_enough(path):
    """What a CF checker asks of a file, without one: see docs/decisions.md."""
    with netCDF4.Dataset(path) as file:
        assert file.Conventions == "CF-1.8"
        assert file.title
        assert file.history
        for name, variable in file.variables.items():
            assert variable.dtype not in (np.int64, np.uint64), name
            about = variable.ncattrs()
            assert {"long_name", "standard_name"} & set(about), name
            if name in file.dimensions:
                assert "_FillValue" not in about, name
                assert (np.diff(variable[:]) > 0).all(), name
            if "flag_values" in about:
                assert variable.flag_values.dtype == variable.dtype
                assert len(variable.flag_meanings.split()) == len(variable.flag_values)
        for name, units in (("lat", "degrees_north"), ("lon", "degrees_east")):
            assert file[name].units == units
            assert file[name].standard_name in ("latitude", "longitude")
        return {name: getattr(v, "standard_name", "") for name, v in file.variables.items()}


def test_maps_and_frames_say_what_cf_asks(at):
    assert coordinates_say_enough(at / "frames.nc")["time"] == "time"
    words = ("--members", 3, "--above", 30, "--above", 20, "--above", 30, "--out")
    solid("predict", at / "run", at / "readings.csv", *words, at / "maps.nc")
    solid("predict", at / "run", at / "readings.csv", *words, at / "walk.nc", "--assimilate")
    for path in (at / "maps.nc", at / "walk.nc"):
        names = coordinates_say_enough(path)
        assert [names[n] for n in ("init_time", "lead_time", "valid_time", "member")] == [
            "forecast_reference_time", "forecast_period", "time", "realization"
        ]  # fmt: skip
        with xr.open_dataset(path) as maps:
            assert maps["valid_time"].values[0, 0] == maps["init_time"].values[0] + maps["lead_time"].values[0]
            flags = [name for name in maps if "flag_values" in maps[name].attrs]
            assert set(flags) >= {"observed", "never_supervised", "domain"}
            assert all(set(np.unique(maps[name])) <= {0, 1} for name in flags)


FULL = """
import resource, sys, numpy as np, xarray as xr
from pathlib import Path
from solidfield.disk import save_dataset
from solidfield.errors import SolidError
data = xr.Dataset({"a": (("y", "x"), np.random.default_rng(0).normal(size=(300, 300)))})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    save_dataset(data, Path(sys.argv[1]))
except SolidError as error:
    print(error)
"""


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    command = [sys.executable, "-c", FULL, str(tmp_path / "maps.nc")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.startswith("cannot write")
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("left", [[".tmp-pairs.zarr"], ["pairs.zarr"], ["pairs.zarr", ".tmp-cells.safetensors"]])
def test_a_run_killed_before_its_first_step_can_be_begun_again(left, resume, tmp_path):
    for name in left:
        if "pairs" in name:
            tiny.tiny_store(tmp_path / "run" / "pairs.zarr").path.rename(tmp_path / "run" / name)
        else:
            (tmp_path / "run" / name).write_bytes(b"half")
    run = city_run(tmp_path / "run", resume=resume)
    assert run.variables == ("pm",)
    assert not list((tmp_path / "run").glob(".tmp-*"))


def test_a_stop_says_what_was_kept(tmp_path, monkeypatch):
    city().to_csv(tmp_path / "readings.csv", index=False)
    words = ["train", tmp_path / "readings.csv", "--out", tmp_path / "run", *GRID, "--preset", "smoke", "--steps", 20]
    words += ["--model", "solid"]

    def stopped(after):
        def update(what, done, total):
            if done > after:
                raise KeyboardInterrupt

        monkeypatch.setattr("solidfield.cli.train.training_bar", lambda *given: update)
        return CliRunner().invoke(app, [str(word) for word in words])

    result = stopped(12)
    assert result.exit_code == 130
    assert "keeps what was learned up to step 10, the same command with --resume goes on" in result.stderr

    def stop(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("solidfield.cli.grid.grid_table", stop)
    nothing = CliRunner().invoke(app, ["grid", str(tmp_path / "readings.csv"), "--out", str(tmp_path / "f.nc")])
    assert (nothing.exit_code, nothing.stderr.strip()) == (130, "stopped; nothing was written")


def test_a_log_has_a_line_now_and_then(capsys, monkeypatch):
    times = iter([0.0, 1.0, 31.0, 32.0, 62.0, 63.0])
    monkeypatch.setattr(show.time, "monotonic", lambda: next(times))
    with show.progress("training", "run") as update:
        for step in range(1, 5):
            update(f"loss {step}", step, 4)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2:] for line in lines] == [
        ["31", "s", "2", "of", "4", "loss", "2"], ["62", "s", "4", "of", "4", "loss", "4"],
        ["63", "s", "loss", "4"],
    ]  # fmt: skip


def test_coordinates_come_back_as_they_were(tmp_path):
    """Times to the microsecond, counts and places: whatever CF wants them to be written as."""
    times = np.datetime64("2024-01-01", "ns") + np.arange(3) * np.timedelta64(1_234_567, "us")
    data = xr.Dataset({"a": ("time", [1.0, 2.0, 3.0])}, {"time": times, "member": ("time", [0, 1, 2]), "x": 0.5})
    save_dataset(data, tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc") as found:
        assert np.abs(found["time"].values - times).max() < np.timedelta64(1, "us")
        assert found["member"].values.tolist() == [0, 1, 2]
