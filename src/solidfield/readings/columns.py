"""Which column is what: by its usual name (names.py), by its CF attributes, or by the user's word.

Every column of numbers that has no other role is a variable, unless the user names the variables. Numbers that name a
sensor, repeat the date or tell how high a place lies are no readings, and `left_out` says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..errors import SolidError
from .names import (
    ALTITUDES,
    ANGLES,
    CALENDAR,
    CLOCKS,
    DATE_PARTS,
    DATES,
    DEGREES,
    DEPTHS,
    EAST,
    ERRORS,
    LATITUDES,
    LONGITUDES,
    METRES,
    NEITHER,
    NORTH,
    PROJECTED_X,
    PROJECTED_Y,
    QUALITY,
    ROLES,
    SENSORS,
    STANDARD,
    TIMES,
    WHAT,
    WORD,
    WORDS,
    names_something,
    plain,
    split_units,
)
from .records import Columns, Header

NO_READINGS: dict[str, tuple[Sequence[str], str]] = {  # what a column is, by which names, and what else to do
    "parts of a date": (DATE_PARTS, ""),
    "how high a place lies": (
        ALTITUDES,
        "; a map of heights helps between the sensors: `solid train --static heights.nc`",
    ),
    "how deep a reading was taken": (DEPTHS, ""),
    "angles, of which no mean can be taken": (ANGLES, "; components along east and north are readings like others"),
    "how sound readings are": (QUALITY, "; drop rows that are not before they are read"),
    "names of something": ((), ""),
}
AMOUNT = re.compile(r"\s*[<>≤≥~]?\s*[+-]?[\d.][\d.,' ]*([a-zA-Zµμ°%]\S{0,9})?\s*")  # 10.2 C, 1,234.5, <5


def find_columns(headers: Sequence[Header], named: Mapping[str, str] | None, where: str) -> Columns:
    """The role of each column, or an error that lists the columns and the option that names them."""
    chosen = _named(headers, named or {}, where)
    date = None
    if "time" not in chosen:
        times = [header.name for header in by_name(headers, TIMES, "time")]
        dates = [name for name in times if plain(name) in DATES]
        parts = _calendar(headers) if all(name in dates for name in times) else ""
        if parts and (not times or plain(times[0]) == "day"):
            chosen["time"] = parts
        elif times:
            chosen["time"] = times[0]
            if dates and plain(times[0]) in CLOCKS:  # a time of day needs its date, "Date GMT" for "Time GMT"
                own = plain(times[0]).replace("time", "date")
                date = next((name for name in dates if plain(name) == own), dates[0])
    places: dict[str, tuple[str, ...]] = {"y": LATITUDES, "x": LONGITUDES}
    for role, names in places.items():
        found = by_name(headers, names, role)
        if role not in chosen and found:
            chosen[role] = found[0].name
    missing = [role for role in ("time", "y", "x") if role not in chosen]
    if missing:
        raise _not_found(missing, headers, where)
    named_sensors = [*by_name(headers, SENSORS, "sensor"), *(h for h in headers if names_something(h.name))]
    named_sensors = [h for h in named_sensors if h.name not in (*chosen.values(), date)]
    if "sensor" not in chosen and named_sensors:
        chosen["sensor"] = named_sensors[0].name
    named_errors = chosen.pop("error", "").split("+")
    taken, unread = (
        {*chosen.values(), *chosen["time"].split("+"), *named_errors, date},
        (*NEITHER, *TIMES, *DATE_PARTS, *ALTITUDES, *QUALITY, *ANGLES),
    )
    values = tuple(chosen["values"].split("+")) if "values" in chosen else tuple(
        h.name for h in headers
        if h.numeric and h.name not in taken and plain(h.name) not in unread
        and not names_something(h.name) and not error_of(h.name, headers)
    )  # fmt: skip
    if "values" not in chosen:  # of snow and water, depth itself is what was read
        values = tuple(name for name in values if plain(name) not in DEPTHS) or values
    if not values:
        raise _not_found(["value"], [h for h in headers if h.name not in taken], where)
    time = chosen["time"] if date is None else f"{date}+{chosen['time']}"
    errors = _errors(headers, values, named_errors, where)
    degrees = any(role.lower() in DEGREES for role in named or {})
    return Columns(time, chosen["y"], chosen["x"], values, chosen.get("sensor"), errors, degrees)


def _calendar(headers: Sequence[Header]) -> str:
    """Year, month and day in columns of their own, with hour, minute and second as far as there are any."""
    found: list[str] = []
    for words in CALENDAR:
        name = next((h.name for word in words for h in headers if plain(h.name) == word), None)
        if name is None:
            break
        found.append(name)
    return "+".join(found) if len(found) >= 3 else ""


def error_of(name: str, headers: Sequence[Header]) -> str:
    """The column whose errors this one holds by its name, such as pm_error of pm; "?" where it says error alone.

    >>> headers = [Header("pm [ug/m3]", True), Header("pm_std", True), Header("sigma", True)]
    >>> [error_of(header.name, headers) for header in headers]
    ['', 'pm [ug/m3]', '?']
    """
    if plain(name) in ERRORS:
        return "?"
    others = [h.name for h in headers if h.numeric and h.name != name]
    pairs = ((other, word) for other in others for word in ERRORS)
    return next((o for o, word in pairs if plain(name) in (plain(o) + word, word + plain(o))), "")


def _errors(
    headers: Sequence[Header], values: Sequence[str], named: Sequence[str], where: str
) -> tuple[str | None, ...]:  # (V,)
    """The column of each variable's errors, by the user's word or by its name."""
    if any(named):
        if len(named) != len(values):
            raise SolidError(
                f"{where}: {len(named)} columns of errors ({', '.join(named)}) for {len(values)} variables "
                f"({', '.join(values)}); name one for each, --columns error=A+B, or read fewer variables"
            )
        return tuple(named)
    numeric = [h.name for h in headers if h.numeric and h.name not in values]
    found: list[str | None] = [
        next((name for name in numeric if error_of(name, headers) == value), None) for value in values
    ]
    alone = [name for name in numeric if error_of(name, headers) == "?"]
    if len(values) == 1 and found == [None] and alone:
        found = [alone[0]]
    return tuple(found) if any(found) else ()


def words_of_errors(headers: Sequence[Header], columns: Columns) -> list[str]:
    """Which columns are taken for errors of readings, and which look like some and are not read."""
    pairs = zip(columns.errors, columns.values, strict=False)
    words = [f"'{error}' is the standard deviation of the errors of '{value}'" for error, value in pairs if error]
    unread = [h.name for h in headers if h.numeric and error_of(h.name, headers) and h.name not in columns.used()]
    if unread:
        words.append(
            f"{', '.join(unread)}: not read, for whose errors it holds is not told; --columns error=NAME says it "
            "(error=A+B, one for each variable)"
        )
    return words


def left_out(headers: Sequence[Header], columns: Columns) -> list[str]:
    """Columns that are no readings by their names, in words; of those that are no numbers, marks of quality alone."""
    spare = [h for h in headers if h.name not in columns.used() and (h.numeric or plain(h.name) in QUALITY)]
    words = []
    for what, (names, more) in NO_READINGS.items():
        found = [h.name for h in spare if (plain(h.name) in names if names else names_something(h.name))]
        if found:
            words.append(f"{', '.join(found)}: {what}, left out; --columns value=NAME reads them all the same{more}")
    return words + _unread(headers, columns)


def _named(headers: Sequence[Header], named: Mapping[str, str], where: str) -> dict[str, str]:
    """The user's word, with every name checked; roles may be written lat, lon, value as well."""
    names = [header.name for header in headers]
    chosen: dict[str, str] = {}
    for word, text in named.items():
        role = ROLES.get(word.lower())
        if role is None:
            raise SolidError(
                f"'{word}' is no role of a column; choose among time, y, x, value, sensor, parameter, error"
            )
        found = []
        for name in [text] if text in names else text.split("+"):
            found.append(column_called(name, names, word, where))
        chosen[role] = "+".join(found)
    return chosen


def column_called(name: str, names: Sequence[str], role: str, where: str) -> str:
    """The column that the user means, who may leave out its unit, its signs and its case."""
    same = [n for n in names if n == name or split_units(n)[0] == name]
    alike = [n for n in names if plain(n) == plain(name)]
    if not same + alike:
        raise SolidError(f"{where} has no column '{name}' for {role}; it has {_list(names)}")
    return (same + alike)[0]


def by_name(headers: Sequence[Header], names: Sequence[str], role: str) -> list[Header]:
    """CF attributes first, then the usual names in order of preference, then a word that only one name holds."""
    usual = [h for name in names for h in headers if plain(h.name) == name]
    found = list({h.name: h for h in (*_by_attribute(headers, role), *usual)}.values())
    return found or _by_word(headers, role)


def _by_attribute(headers: Sequence[Header], role: str) -> list[Header]:
    return [
        h for h in headers
        if STANDARD.get(h.standard_name) == role
        or (role == "y" and h.units.lower() in NORTH) or (role == "x" and h.units.lower() in EAST)
    ]  # fmt: skip


def _by_word(headers: Sequence[Header], role: str) -> list[Header]:
    """The only column with such a word in its name, where none has it for a name.

    >>> headers = [Header("geo_lat", True), Header("decimalLongitude", True), Header("latency", True)]
    >>> [[header.name for header in _by_word(headers, role)] for role in ("y", "x", "time")]
    [['geo_lat'], ['decimalLongitude'], []]
    """
    words = WORDS.get(role, frozenset())
    found = [h for h in headers if words & {word.lower() for word in WORD.findall(split_units(h.name)[0])}]
    return found if len(found) == 1 else []


def words_of_guesses(headers: Sequence[Header], columns: Columns, named: Mapping[str, str] | None) -> list[str]:
    """Columns that were taken for times and places by one word of their names."""
    given = {ROLES.get(role.lower()) for role in named or {}}
    roles = {"time": (columns.time, TIMES), "y": (columns.y, LATITUDES), "x": (columns.x, LONGITUDES)}
    guessed = {
        role: name
        for role, (name, names) in roles.items()
        if role not in given and plain(name) not in names and not _by_attribute(headers, role)
        if [h.name for h in _by_word(headers, role)] == [name]
    }
    words = ", ".join(f"'{name}' for {WHAT[role]}" for role, name in guessed.items())
    option = ",".join(f"{role}=NAME" for role in guessed)
    return [f"{words}, by a word of the name; if that is wrong, name the column: --columns {option}"] if words else []


def geographic(columns: Columns, headers: Sequence[Header]) -> bool:
    """Degrees, unless the coordinates are called y and x (northing, easting) and neither user nor attribute says so."""
    if columns.degrees:
        return True
    header = {h.name: h for h in headers}
    for name in (columns.y, columns.x):
        about = header[name]
        if about.units.lower() in (*NORTH, *EAST) or about.standard_name in ("latitude", "longitude"):
            return True
        if plain(name) in (*PROJECTED_Y, *PROJECTED_X) or about.units.lower() in METRES:
            return False
    return True


def _unread(headers: Sequence[Header], columns: Columns) -> list[str]:
    """Columns of text whose fields begin like numbers: 10.2 C, 1,234.5; they may be what was to be read."""
    spare = [h for h in headers if not h.numeric and AMOUNT.fullmatch(h.text) and h.name not in columns.used()]
    return [
        f"'{h.name}' holds text ('{h.text}') and is not read; if it is a reading, write plain numbers"
        for h in spare
        if plain(h.name) not in (*TIMES, *DATE_PARTS, *NEITHER) and not names_something(h.name)
    ]


def _not_found(missing: Sequence[str], headers: Sequence[Header], where: str) -> SolidError:
    wanted = " and no ".join(f"column of {WHAT[role]}" for role in missing)
    option = ",".join(f"{role}=NAME" for role in missing)
    table = ", or give a table of where sensors stand (--places)" if {"y", "x"} <= set(missing) else ""
    texts = [h for h in headers if not h.numeric and AMOUNT.fullmatch(h.text)] if "value" in missing else []
    remedy = f"write plain numbers in '{texts[0].name}', which holds '{texts[0].text}', or " if texts else ""
    return SolidError(
        f"{where}: no {wanted} found among {_list([h.name for h in headers])}; "
        f"{remedy}name it with --columns {option}{table}"
    )


def _list(names: Sequence[str], most: int = 30) -> str:
    shown = ", ".join(f"'{name[:60]}'" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
