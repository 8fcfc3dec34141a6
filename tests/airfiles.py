"""Small files in the layouts of the public data sets, for tests of their readers and benches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from solidfield.keys import numpy_generator


def write_airdelhi(folder: Path, days: int = 10, weather: bool = False, box: tuple[int, int] = (7, 6)) -> pd.DataFrame:
    """Daily files from 12 November 2020 on; returns all their rows."""
    generator = numpy_generator(0, "airdelhi files")
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for day in pd.date_range("2020-11-12", periods=days):
        count = 240
        minute = generator.uniform(350, 510, count)
        when = (day + pd.to_timedelta(minute * 60, unit="s").round("s")).sort_values()
        lat = 28.48 + 0.009 * generator.uniform(0, box[0], count)
        long = 77.10 + 0.0102 * generator.uniform(0, box[1], count)
        pm = 100 + 20 * np.sin(minute / 60) + 500 * (lat - 28.5) + generator.normal(0, 5, count)
        table = pd.DataFrame(
            {
                "uid": [f"u{n}" for n in range(count)],
                "dateTime": [f"{stamp.isoformat()}+05:30" for stamp in when],
                "deviceId": generator.integers(1, 4, count),
                "lat": lat,
                "long": long,
                "pm1_0": pm / 2,
                "pm2_5": pm,
                "pm10": pm * 1.2,
            }
        )
        if weather:
            table = table.assign(pressure=1000.0, temperature=20.0, humidity=50.0)
        table.to_csv(folder / f"{day.date()}_all.csv")
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def write_kolkata(folder: Path, days: int = 12) -> None:
    """Six files of hourly readings on 0.01 degree; the first has one outlier."""
    generator = numpy_generator(0, "kolkata files")
    folder.mkdir(parents=True, exist_ok=True)
    starts = {"Spring": "2023-04-01", "Autumn": "2023-09-15", "Winter": "2023-12-01"}
    for kind in ("Mobile", "Static"):
        for season, start in starts.items():
            hours = pd.date_range(start, periods=24 * days // 3, freq="h")
            lines = ["lat,long,time,pm"]
            for n, hour in enumerate(hours):
                for cell in generator.permutation(30)[:8]:
                    pm = np.exp(3.5 + 0.4 * np.sin(n / 4) + 0.02 * cell + generator.normal(0, 0.1))
                    time = f"{hour.month}/{hour.day}/{hour.year} {hour.hour}:00"
                    lines.append(f"{22.50 + 0.01 * (cell // 6):.2f},{88.30 + 0.01 * (cell % 6):.2f},{time},{pm:.6f}")
            if (kind, season) == ("Mobile", "Spring"):
                lines.append(f"22.50,88.30,{hours[0].month}/{hours[0].day}/2023 0:00,999")
            (folder / f"{kind}_{season}.csv").write_text("\n".join(lines) + "\n")


def write_era5(folder: Path, days: int = 8, spoil: np.ndarray | None = None) -> np.ndarray:  # (T, H, W)
    """A smooth field that moves; `spoil` is added to it."""
    folder.mkdir(parents=True, exist_ok=True)
    hours, y, x = np.meshgrid(np.arange(24 * days), np.arange(9), np.arange(11), indexing="ij")
    field = 280 + 3 * np.sin(0.5 * x + 0.1 * hours) + 2 * np.cos(0.4 * y - 0.05 * hours)
    field = field if spoil is None else field + spoil
    axes = {"time": pd.date_range("2019-03-01", periods=24 * days, freq="h"), "latitude": 50 + 0.25 * np.arange(9)}
    axes["longitude"] = -10 + 0.25 * np.arange(11)
    data = xr.Dataset({"t2m": (("time", "latitude", "longitude"), field, {"units": "K"})}, axes)
    data.to_netcdf(folder / "era5-test.nc")
    return field
