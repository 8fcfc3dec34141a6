"""However a text table is laid out, it reads as the plain CSV of the same readings, row by row."""

import numpy as np
import pandas as pd
import pytest

from solidfield.errors import SolidError
from solidfield.readings import open_table

ROWS = 300


def readings():
    draws = np.random.default_rng(3)
    time = pd.Timestamp("2024-05-01") + pd.to_timedelta(np.arange(ROWS) // 3, unit="h")
    table = pd.DataFrame({"time": time.strftime("%Y-%m-%d %H:%M"), "station": [f"S{i % 3}" for i in range(ROWS)]})
    return table.assign(lat=50 + 0.1 * (np.arange(ROWS) % 3), lon=-7.5, pm=draws.normal(10, 9, ROWS).round(2))


def aligned(table):
    return table.to_string(index=False) + "\n"


def behind_a_sign(table, separator):
    title = "# made by a logger\n# " + separator.join(table.columns) + "\n"
    return title + table.to_csv(index=False, header=False, sep=separator)


WRITTEN = {
    "aligned": aligned,
    "aligned, with spaces at the ends": lambda table: aligned(table).replace("\n", "  \r\n"),
    "one space, quotes": lambda table: table.to_csv(index=False, sep=" "),
    "header behind #": lambda table: behind_a_sign(table, ","),
    "header behind #, spaces": lambda table: "# n t\n#" + aligned(table),
    "words above": lambda table: "A logger.\n\n" + table.to_csv(index=False, sep=";"),
}


@pytest.mark.parametrize("rows", [7, 100_000])
@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_table_reads_as_its_plain_csv(tmp_path, written, rows):
    readings().to_csv(tmp_path / "plain.csv", index=False)
    text = written(readings())
    (tmp_path / "other.txt").write_bytes(text.encode())
    above = text.count("\n") - 1 - ROWS  # lines above the header
    plain, other = (
        pd.concat(map(_frame, open_table(tmp_path / name).chunks(rows)), ignore_index=True)
        for name in ("plain.csv", "other.txt")
    )
    pd.testing.assert_frame_equal(plain.assign(row=plain.row + above), other)


def _frame(chunk):
    rows, refused = chunk
    assert not refused
    return pd.DataFrame(
        {name: getattr(rows, name) for name in ("row", "time", "y", "x", "sensor")} | {"pm": rows.values[:, 0]}
    )


def test_a_line_of_spaces_with_a_field_too_many_is_refused_by_its_number(tmp_path):
    lines = aligned(readings()).splitlines()
    lines[200] += "  7"
    (tmp_path / "t.dat").write_text("\n".join(lines))
    refused = [one for _, some in open_table(tmp_path / "t.dat").chunks(50) for one in some]
    assert [(one.row, one.reason) for one in refused] == [(201, "more fields than the header has")]


def test_words_are_no_columns(tmp_path):
    (tmp_path / "t.txt").write_text("a text about sensors\nand what they read there\nno table\n")
    with pytest.raises(SolidError, match="no separator found"):
        open_table(tmp_path / "t.txt")
    (tmp_path / "t.csv").write_text("# of a station\n1,2,3\n4,5,6\n")
    with pytest.raises(SolidError, match="first line holds numbers"):
        open_table(tmp_path / "t.csv")


def test_a_comment_above_a_header_of_numbered_stations_is_none(tmp_path):
    (tmp_path / "t.csv").write_text(
        "# at, a, b, c\ntime,101,102,103\n2024-05-01T00:00Z,1,2,3\n2024-05-01T01:00Z,4,5,6\n"
    )
    places = {"101": (50.0, 8.0), "102": (50.1, 8.1), "103": (50.2, 8.2)}
    (rows, _), *_ = open_table(tmp_path / "t.csv", places=places).chunks()
    assert rows.values[:, 0].tolist() == [1, 2, 3, 4, 5, 6]


def test_blank_lines_do_not_part_a_date_from_its_place(tmp_path):
    lines = [
        f"2024-05-{1 + hour // 24:02d},{hour % 24:02d}:00,{50 + 0.1 * k},8.5,{k},{hour + 0.5}"
        for hour in range(48)
        for k in range(4)
    ]
    (tmp_path / "t.csv").write_text("date,time,lat,lon,punto,pm\n" + "\n\n".join(lines) + "\n")
    table = open_table(tmp_path / "t.csv")
    assert (table.variables, table.columns.sensor) == (("pm",), "punto")
    assert len(next(table.chunks())[0]) == len(lines)
