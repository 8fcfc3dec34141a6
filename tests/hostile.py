"""What a table, a command line or a file may hold, of which most is wrong: pools to draw from (`test_fuzz.py`)."""


def pool(text: str) -> list[str]:
    return text.replace("\n", "").split("|")


TIMES = pool("""2024-01-01T00:00:00Z|2024-01-01 05:00|2024-01-02|3/4/2024|31/12/2023 5 pm|1704067200|20240101|
1500-01-01|9999-12-31T23:59:59Z|2024-02-30|2024-13-01|24:00|now|0|-1|1e18|2024-03-31T02:30|2024-01-01T00:00:00+99:99|
2024-01-01T00:00:00.123456789123Z|2024013112|2024139912|1-Feb-2024|
24-02-01|31/12/99|2024-01-01 24:00|2024-02-30 24:00|1年2月3日|Feb 30, 2024|12 of May|May""")
NUMBERS = pool("""22.5|88.3|-0|1e3|1e30|-1e39|1e400|inf|-inf|nan|NaN|1,5|0x10|1_000|٣|--1|1e-320|90|-90.0001|180|360|
361|1e308|true|None|-999|9999|-99.9|12|24""")
JUNK = ["\t", "\0", "x" * 300, *pool("""| |"|"a|a,b|;|é|\ud7ff|💧|'|#|=1+1|<b>|../..|%s""")]
NAMES = pool("""time|lat|lon|pm|pm_count|pm_mean|date|sensor|error|domain|-pm|../../evil|pm (ug/m3)||1|time (UTC)|y|x|
Latitude|ünïts|a b|variable|member|id|parameter|unit|value|year|month|day|hour|station|qc|wind_dir|depth|
Date GMT|Time GMT""")
ODD = pool("""|0|-1|1|2.5|nan|inf|-inf|1e400|1000000000|99999999999999999999|1km|0.01deg|1e-9deg|1h|1d|1e9d|None|[]|{}|
a,b|a=b|time=pm|value=pm|y=lon,x=lat|UTC|+5|+99:99|Mars/Base|%Q|%Y|dayfirst|log|
days since 0000-12-31|hours since x|seconds since 9999999-01-01|parameter=none|parameter=pm|
none|cube|2024-01-03T05:00|1500-01-01|
22.51,88.31|90,0|1,2,3,4|22,88,23,89|4,3,2,1|mad:6|mad:x|round|..|/|💧|--json""")
KEYS = pool("train.batch|train.lr|train.steps|predict.members|predict.quantiles|model.name|x.y")
READING = pool("--columns|--timezone|--date-format|--units|--places")
GRIDDING = [*READING, *pool("--cell|--every|--variable|--drop-above")]
OPTIONS = {
    "check": READING,
    "grid": [*GRIDDING, *pool("--bounds|--domain|--anchor|--drop-below|--outliers|--max-memory")],
    "predict": [*READING, *pool("""--at|--since|--above|--where|--area|--drop-above|--preset|--members|--steps|--scenes|
--lead|--seed|--max-memory|--engine|--jobs|--set|--split""")],
    "quality": pool("--variable|--transform|--most|--least|--level"),
    "evaluate": pool("--members|--scenes|--steps|--seed|--above|--rival"),
    "train": [*GRIDDING, *pool("""--transform|--offset|--lead|--hold-days|--hold-sensors|--hold-blocks|
--hold-list|--hold-mask|--hold-fold|--hold-calibration|--calendar|--history|--static|--preset|--steps|--minutes|--seed|--set""")],
}  # fmt: skip
