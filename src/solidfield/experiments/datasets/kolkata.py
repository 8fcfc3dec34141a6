"""Kolkata: hourly PM2.5 from buses and fixed low-cost sensors, three seasons of 2023-24.

Six CSV files `{Mobile,Static}_{Spring,Autumn,Winter}.csv` with columns lat, long, time (month first, local time at
+05:30) and pm in ug/m3; coordinates are rounded to 0.01 degree. Buses and fixed sensors that meet in a cell within an
hour are averaged; readings above 400 ug/m3 are outliers and dropped. Data: Kolkata PM2.5 Pollution Dataset, S. Chauhan
et al., IIT Delhi, CC BY 4.0.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...errors import SolidError
from ...pairs.frames import Frames, as_frames
from ...readings.intake import grid

FILES = tuple(f"{kind}_{season}.csv" for kind in ("Mobile", "Static") for season in ("Spring", "Autumn", "Winter"))
TIMEZONE = "+05:30"
HIGHEST = 400.0  # ug/m3
CREDIT = "Kolkata PM2.5 Pollution Dataset, S. Chauhan et al., IIT Delhi, CC BY 4.0"


def read_kolkata(folder: Path | str, kind: str = "") -> Frames:
    """The six files, or those of one kind, as hourly frames on 0.01 degree cells; in the folder or its `kolkata`."""
    folder = find(Path(folder), "kolkata", FILES[0])
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise SolidError(f"{folder} has no {missing[0]}; name the folder of the six Kolkata files with --data")
    frames = grid(
        [folder / name for name in FILES if name.startswith(kind)],
        cell="0.01deg",
        every="1h",
        timezone=TIMEZONE,
        dates="monthfirst",
        units="ug/m3",
        drop_above=HIGHEST,
    )
    return replace(as_frames(frames), timezone=TIMEZONE)


def find(folder: Path, name: str, pattern: str) -> Path:
    """The folder itself if it holds such a file, else its subfolder of this name if there is one."""
    inner = folder / name
    return inner if inner.is_dir() and not any(folder.glob(pattern)) else folder
