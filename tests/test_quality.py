"""Leave-one-sensor-out: the closed form against removal, planted faults found, sound sensors left in peace."""

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from typer.testing import CliRunner

import tiny
from solidfield import cli
from solidfield.errors import SolidError
from solidfield.fields import Source
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.keys import numpy_generator
from solidfield.models.kriging import Kriging
from solidfield.quality.leave_out import Panel, fit_covariance, hidden_laws
from solidfield.quality.ranking import quality
from solidfield.quality.suspects import judge, persistence
from solidfield.readings import save_frames
from solidfield.theory.covariance import TorusCovariance
from solidfield.training.loop import train
from solidfield.worlds import gaussian_world

SIDE = 10
SENSORS = 24


pytestmark = pytest.mark.usefixtures("one_thread")


def readings(seed: int = 0, frames: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """(F, H, W) with NaN: sensors with errors of a tenth, each silent in a third of the frames; and (S, 2) sites."""
    world = gaussian_world(cells=SIDE, frames=frames, spacing=1.0, seed=seed, length=0.2)
    field = world.trajectories([0])[0, :, 0].astype(float)
    draws = numpy_generator(seed, "quality")
    site = np.sort(draws.permutation(SIDE * SIDE)[:SENSORS])
    keep = np.isin(np.arange(SIDE * SIDE), site).reshape(SIDE, SIDE)
    read = keep & (draws.random(field.shape) < 0.67)
    return np.where(read, field + 0.1 * draws.standard_normal(field.shape), np.nan), np.argwhere(keep)


def frames_of(values: np.ndarray, **attributes) -> xr.Dataset:
    time = np.datetime64("2023-01-01", "ns") + np.arange(len(values)) * np.timedelta64(1, "h")
    place = {"y": np.arange(float(values.shape[1])), "x": np.arange(float(values.shape[2]))}
    return xr.Dataset({"pm": (("time", "y", "x"), values, {"units": "ug/m3"})}, {"time": time, **place}, attributes)


def test_the_closed_form_is_kriging_without_the_reading():
    """Every hidden reading of a frame, with and without a sensor set aside, against `Kriging.posterior`."""
    values, site = readings()
    grid = Grid((SIDE, SIDE))
    panel = Panel(grid, np.arange(len(values)), site, values[:, site[:, 0], site[:, 1]])
    centre, width, covariance = fit_covariance(panel, np.arange(SENSORS))
    standard = (panel.value[:2] - centre) / width
    model = Kriging(Spec(grid))
    model.kernel, model.cross, model.leads = covariance.kernel[None], covariance.cross[None], covariance.leads
    for aside in ([], [3, 8]):
        mean, std = hidden_laws(covariance, site, standard, aside)
        for f, s in np.argwhere(np.isfinite(standard)):
            others = np.isfinite(standard[f]) & (np.arange(SENSORS) != s) & ~np.isin(np.arange(SENSORS), aside)
            mask = torch.zeros(1, 1, SIDE, SIDE, dtype=torch.bool)
            field = torch.zeros(1, 1, SIDE, SIDE, dtype=torch.float64)
            mask[0, 0, site[others, 0], site[others, 1]] = True
            field[0, 0, site[others, 0], site[others, 1]] = torch.from_numpy(standard[f, others])
            exact, spread = model.posterior(Source.of(field, mask, torch.zeros(1)))
            row, column = site[s]
            assert mean[f, s] == pytest.approx(float(exact[0, 0, row, column]), abs=1e-5)
            assert std[f, s] == pytest.approx(float(spread[0, 0, row, column]), rel=1e-4)


def test_with_the_true_covariance_z_is_standard_normal():
    """White errors of reading join the kernel at distance 0; 3,000 values of z by the law of a Gaussian field."""
    world = gaussian_world(cells=SIDE, frames=150, spacing=20.0, length=0.2)
    kernel = torch.from_numpy(world.covariance())
    kernel[0, 0] += 0.01
    values, site = readings(frames=150)
    field = world.trajectories([1])[0, :, 0].astype(float)
    noisy = field + 0.1 * numpy_generator("errors").standard_normal(field.shape)
    value = np.where(np.isfinite(values), noisy, np.nan)[:, site[:, 0], site[:, 1]]
    nothing = torch.zeros(0, SIDE, SIDE, dtype=torch.float64)
    mean, std = hidden_laws(TorusCovariance(kernel, nothing, torch.zeros(0)), site, value)
    z = ((value - mean) / std)[np.isfinite(value)]
    assert abs(z.mean()) < 5 / np.sqrt(len(z))
    assert z.std() == pytest.approx(1.0, abs=0.06)
    assert np.mean(np.abs(z) > 1.645) == pytest.approx(0.1, abs=0.02)


def test_a_biased_and_a_noisy_sensor_lead_the_ranking():
    values, site = readings()
    biased, noisy = 4, 15
    values[:, *site[biased]] += 1.2
    values[:, *site[noisy]] += 1.5 * numpy_generator("noise").standard_normal(len(values))
    found = quality(frames_of(values))
    assert set(found.suspects["sensor"]) == {biased, noisy}
    first = found.sensors.set_index("sensor")
    assert found.sensors["sensor"][:2].isin([biased, noisy]).all()
    assert first.loc[biased, "bias"] == pytest.approx(1.2, abs=0.25)
    assert "too high by" in first.loc[biased, "verdict"]
    assert first.loc[noisy, "spread"] > 1.5
    assert "scatters" in first.loc[noisy, "verdict"]
    assert (first.loc[noisy, "y"], first.loc[noisy, "x"]) == tuple(site[noisy])
    rows = found.readings
    assert len(rows) == np.isfinite(values).sum()
    np.testing.assert_allclose(
        rows["z"], (rows["reading"] - rows["expected"]) * 2 * 2.5758 / (rows["high"] - rows["low"]), rtol=1e-3
    )
    assert ((rows["pit"] > 0.995) == (rows["z"] > 2.5758)).all()


def test_sound_networks_see_no_more_alarms_than_the_level():
    """5 worlds end to end, then 150 families of z that persist from frame to frame: at most 5 %, within chance."""
    alarms = [len(quality(frames_of(readings(seed)[0])).suspects) > 0 for seed in range(5)]
    assert sum(alarms) <= 1  # P(more) = 2 % at 5 %
    count = 0
    for family in range(150):
        draws = numpy_generator("family", family)
        z = draws.standard_normal((120, int(draws.integers(6, 40))))
        for f in range(1, len(z)):
            z[f] = 0.6 * z[f - 1] + 0.8 * z[f]
        z[draws.random(z.shape) < 0.3] = np.nan
        count += bool(judge(z, 0.05).suspect.any())
    assert count <= 14  # P(more) < 1 % at 5 %


def test_places_with_a_character_of_their_own_are_no_suspects():
    """Every sensor has its own bias of about one deviation: the family, not zero, is the yardstick."""
    draws = numpy_generator("character")
    own = draws.standard_normal(40)
    z = draws.standard_normal((200, 40)) + own
    assert not judge(z).suspect.any()
    z[:, 7] += 9
    assert np.flatnonzero(judge(z).suspect).tolist() == [7]


def test_an_erratic_sensor_is_found_by_its_tail():
    z = numpy_generator("erratic").standard_normal((300, 30))
    z[::12, 3] += 15
    found = judge(z)
    assert np.flatnonzero(found.suspect).tolist() == [3]
    assert int(np.argmin(found.log_p[:, 3])) == 2


def test_persistence_is_that_of_an_autoregression():
    """1 + 2 sum r^k = (1 + r) / (1 - r)."""
    z = numpy_generator("persistence").standard_normal((2000, 30))
    assert persistence(z) == pytest.approx(1.0, abs=0.1)
    for f in range(1, len(z)):
        z[f] = 0.6 * z[f - 1] + 0.8 * z[f]
    assert persistence(z) == pytest.approx(4.0, abs=0.4)


def test_in_log_space_a_gain_is_a_bias():
    """A sensor that reads 1.8 times too much, in a positive field."""
    values, site = readings()
    values = np.exp(0.4 * values + 3)
    values[:, *site[9]] *= 1.8
    found = quality(frames_of(values), transform="log")
    assert found.suspects["sensor"].tolist() == [9]
    assert found.sensors["bias"][0] == pytest.approx(0.8, abs=0.15)
    assert (found.readings["low"] > 0).all()
    with pytest.raises(SolidError, match="not positive"):
        quality(frames_of(values - values[np.isfinite(values)].mean()), transform="log")


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda v: v[:5], {}, "0 cells of 'pm' were read 20 times"),
        (lambda v: np.where(np.isfinite(v), 3.0, np.nan), {}, "all readings are 3"),
        (lambda v: v, {"transform": "root"}, "transform 'root'"),
        (lambda v: v, {"variable": "no2"}, "no2"),
        (lambda v: v, {"model": "nowhere"}, "nowhere"),
    ],
)
def test_a_mistake_is_one_line(change, options, message):
    with pytest.raises(SolidError, match=message) as error:
        quality(frames_of(change(readings()[0])), **options)
    assert "\n" not in str(error.value)


def test_a_trained_run_takes_the_place_of_kriging(run):
    """The hidden reading never reaches the run: wild values at one sensor change what it expects elsewhere only."""
    lead_zero = tiny.tiny_store(run.parent / "pairs", leads=(0,))
    train(tiny.Tiny(tiny.spec_of(lead_zero)), lead_zero, run, tiny.tiny_config())
    draws = numpy_generator("run")
    values = np.where(draws.random((6, 8, 8)) < 0.15, 3 + 5 * draws.standard_normal((6, 8, 8)), np.nan)

    def expected(readings: np.ndarray) -> pd.DataFrame:
        frames = frames_of(readings).rename(pm=lead_zero.variables[0])
        frames = frames.assign_coords(y=lead_zero.grid.y, x=lead_zero.grid.x)
        return quality(frames, model=run, least=2, members=8).readings

    plain = expected(values)
    row, column = np.argwhere(np.isfinite(values).sum(0) >= 2)[plain.loc[0, "sensor"]]
    values[:, row, column] += 1000.0
    wild = expected(values)
    here = plain["sensor"] == plain.loc[0, "sensor"]
    np.testing.assert_array_equal(plain.loc[here, "expected"], wild.loc[here, "expected"])
    assert not np.array_equal(plain.loc[~here, "expected"], wild.loc[~here, "expected"])


def test_the_verb_writes_a_ranking_and_a_picture(tmp_path):
    values, site = readings()
    values[:, *site[4]] += 1.5
    frames = frames_of(values, format="solidfield-frames")
    save_frames(frames, tmp_path / "frames.nc")
    words = ["quality", str(tmp_path / "frames.nc"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(cli.app, words, catch_exceptions=False)
    assert result.exit_code == 0
    assert "1 out of line" in result.stdout
    table = pd.read_csv(tmp_path / "out" / "sensors.csv")
    assert table["suspect"].sum() == 1
    assert (table["y"][0], table["x"][0]) == tuple(site[4])
    assert (tmp_path / "out" / "sensors.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(SolidError, match="never written over"):
        CliRunner().invoke(cli.app, words, catch_exceptions=False)


@pytest.mark.parametrize(("sensors", "remedy"), [(4, "so more sensors"), (8, "lower --least")])
def test_too_few_sensors_are_not_told_what_cannot_help(sensors, remedy):
    values, site = readings()
    few = np.full_like(values, np.nan)
    for y, x in site[:sensors]:
        few[:10, y, x] = values[:10, y, x]
    with pytest.raises(SolidError, match=remedy):
        quality(frames_of(few))
