"""What the doctor reports, and what each kind of quantity can be.

A finding says what was found, how often, where (file and row), and what to do about it. Its severity: `note` is worth
knowing, `doubt` asks for a look, `fault` spoils maps unless it is mended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..records import Rows
    from .reservoir import Kept

EXAMPLES = 5  # rows shown with a finding
RESTING = 0.05  # of a sensor's readings at one end: a value to rest at
SEVERITIES = ("note", "doubt", "fault")


@dataclass(frozen=True)
class Finding:
    what: str  # a word for machines: duplicates, stuck, unit-slip, ...
    severity: str  # note | doubt | fault
    text: str
    count: int  # of what the text counts
    examples: tuple[tuple[str, int], ...]  # (file, row), the header being row 1
    remedy: str


@dataclass(frozen=True)
class Scene:
    """What a detector may look at."""

    kept: Kept
    files: tuple[str, ...]
    variables: tuple[str, ...]
    units: tuple[str, ...]
    geographic: bool
    identity: str  # sensor | place | none: what a series in time belongs to
    names: dict[int, str]  # of sensors, by hash

    def name_of(self, who: int, at: int) -> str:
        """The name of a sensor, or its place; `at` is one of its rows among the kept."""
        if self.identity == "sensor":
            return self.names.get(who, f"of row {self.kept.row[at]}")
        return f"at {self.kept.y[at]:g}, {self.kept.x[at]:g}"

    def examples(self, at: np.ndarray) -> tuple[tuple[str, int], ...]:
        """The first of these rows in the order of the files."""
        order = np.lexsort((self.kept.row[at], self.kept.file[at]))[:EXAMPLES]
        return tuple((self.files[self.kept.file[i]], int(self.kept.row[i])) for i in np.asarray(at)[order])

    def finding(
        self, what: str, severity: str, text: str, at: np.ndarray, remedy: str, count: int | None = None
    ) -> Finding:
        """Of these rows; `count` where the text counts something else."""
        return Finding(what, severity, text, len(at) if count is None else count, self.examples(at), remedy)


@dataclass
class Tally:
    """Rows that meet a condition, counted exactly over the whole stream."""

    count: int = 0
    examples: list[tuple[str, int]] = field(default_factory=list)

    def add(self, where: np.ndarray, rows: Rows, files: tuple[str, ...]) -> None:  # where: (n,) bool
        at = np.flatnonzero(where)
        self.count += len(at)
        for i in at[: EXAMPLES - len(self.examples)]:
            self.examples.append((files[rows.file[i]], int(rows.row[i])))

    def finding(self, what: str, severity: str, text: str, remedy: str) -> list[Finding]:
        """The finding, with {n} in its text, or none."""
        if not self.count:
            return []
        return [Finding(what, severity, text.format(n=f"{self.count:,}"), self.count, tuple(self.examples), remedy)]


def resting(value: np.ndarray, who: np.ndarray) -> np.ndarray:  # (n,), (n,) sensors -> (n,) bool
    """Readings at the lowest or highest value of all, where more than a twentieth of the usual sensor's are.

    No rain, night, below detection, saturated air: a value to rest at, which says nothing of how readings scatter.

    >>> resting(np.array([0, 3, 0, 9, 0, 5.0]), np.array([0, 0, 1, 1, 2, 2])).tolist()
    [True, False, True, False, True, False]
    """
    rests = np.zeros(len(value), bool)
    known = np.isfinite(value)
    if not known.any() or np.ptp(value[known]) == 0:
        return rests
    _, sensor = np.unique(who[known], return_inverse=True)
    for end in (value[known].min(), value[known].max()):
        share = np.bincount(sensor, value[known] == end) / np.bincount(sensor)
        if np.median(share) > RESTING:
            rests |= value == end
    return rests


@dataclass(frozen=True)
class Kind:
    """A quantity and the range it cannot leave, in the units given."""

    name: str
    words: str  # expression that the variable's name matches
    limits: dict[str, tuple[float, float]]  # by units; "" where they are not known


INFINITE = float("inf")
CONCENTRATION = (0.0, INFINITE)
KINDS = (
    Kind(
        "temperature",
        r"^(t|ta|t2m|tas|temp|tmp|t_?air|t_?(min|max|mean|avg)|.*temperature.*|air_?t(emp)?|.*_temp)$",
        {"K": (150.0, 350.0), "degC": (-95.0, 65.0), "degF": (-140.0, 150.0), "": (-140.0, 350.0)},
    ),
    Kind("humidity", r"^(rh|hum|humidity|relative_humidity|.*humidity.*)$", {"%": (0.0, 100.0), "": (0.0, 100.0)}),
    Kind(
        "pressure",
        r"^(p|sp|msl|slp|pres|pressure|.*pressure.*)$",
        {"Pa": (3e4, 1.1e5), "hPa": (300.0, 1100.0), "": (0.0, 1.1e5)},
    ),
    Kind("wind speed", r"^(ws|wspd|wind_?speed|.*wind_?speed.*)$", {"": (0.0, 150.0)}),
    Kind("precipitation", r"^(tp|pr|rr|ppt|prcp|rain|precip.*|.*rainfall.*)$", {"": (0.0, INFINITE)}),
    Kind("radiation", r"^(ssrd|rsds|ghi|solar.*|.*radiation.*|.*irradiance.*)$", {"": (-50.0, 1500.0)}),
    Kind(
        "concentration", r"^(pm.*|aqi|no2?|nox|o3|ozone|so2|co2?|nh3|bc|voc.*|.*concentration.*)$", {"": CONCENTRATION}
    ),
)
UNITS = {"k": "K", "kelvin": "K", "degc": "degC", "c": "degC", "°c": "degC", "celsius": "degC",
         "degrees_celsius": "degC", "degf": "degF", "f": "degF", "°f": "degF", "fahrenheit": "degF", "%": "%",
         "percent": "%", "pa": "Pa", "hpa": "hPa", "mbar": "hPa", "millibar": "hPa"}  # fmt: skip
# Words about a quantity that do not say what it is: units, and of what its readings are the mean.
ABOUT = ("c|f|k|degc|degf|celsius|kelvin|fahrenheit|mm|cm|mmh|mmhr|pct|percent|pa|hpa|kpa|mbar|ms|mps|kmh|wm2|ug|mg|ng|"
         "m3|ugm3|mgm3|ngm3|ppb|ppm|ppbv|ppmv|avg|mean|median|min|max|sum|total|hourly|daily|\\d+(h|d|min)|value|raw|"
         "corrected|calibrated|obs|observed")  # fmt: skip
BEHIND, BEFORE = re.compile(rf"[_ .-]+({ABOUT})$"), re.compile(rf"^({ABOUT})[_ .-]+")
MASSES = re.compile(r"^([umn]?g|µg|μg|ppb|ppm|ppbv|ppmv)([ /]|$)")  # units that only concentrations have


def kind_of(name: str, units: str) -> str:
    """temperature, humidity, ..., or "" for a quantity that is not known here.

    >>> kind_of("pm2_5", ""), kind_of("x17", "ug/m3"), kind_of("t2m", "K"), kind_of("depth", "m")
    ('concentration', 'concentration', 'temperature', '')
    >>> kind_of("Temp_C", ""), kind_of("rain_mm_24h", ""), kind_of("daily_mean_no2_ug_m3", ""), kind_of("max", "")
    ('temperature', 'precipitation', 'concentration', '')
    """
    bare, before = name.lower(), ""
    while bare != before:
        if found := next((kind.name for kind in KINDS if re.match(kind.words, bare)), ""):
            return found
        bare, before = BEFORE.sub("", BEHIND.sub("", bare)), bare
    if MASSES.match(units.lower()):
        return "concentration"
    return "temperature" if plain_units(units) in ("K", "degC", "degF") else ""


def plain_units(units: str) -> str:
    return UNITS.get(units.strip().lower(), "")


def may_be_negative(name: str, units: str) -> bool:
    """Of a kind that is known to go below zero, whatever these readings show.

    >>> [may_be_negative(*about) for about in (("air_temp", "degC"), ("air_temp", "K"), ("pm", ""), ("level", "m"))]
    [True, False, False, False]
    """
    return kind_of(name, units) != "" and limits_of(name, units)[0] < 0


def limits_of(name: str, units: str) -> tuple[float, float]:
    """What the quantity cannot lie outside of."""
    kind = kind_of(name, units)
    for known in KINDS:
        if known.name == kind:
            return known.limits.get(plain_units(units), known.limits.get("", (-INFINITE, INFINITE)))
    return (-INFINITE, INFINITE)
