"""What columns are usually called, in a few languages, and what a name says: unit, label, whether it names a sensor.

Names are compared without case, units and punctuation: "Date Time (UTC)" and "datetime" are alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Each in order of preference.
TIMES = ("time", "datetime", "timestamp", "validtime", "dateandtime", "datetimeutc", "timeutc", "utctime", "utc",
         "timestamputc", "observedat", "recordedat", "createdat", "ts", "epoch", "unixtime", "timegmt", "localtime",
         "timelocal", "zeit", "uhrzeit", "zeitpunkt", "fechahora", "hora", "heure", "date", "dategmt", "dateutc",
         "datelocal", "datum", "fecha", "day")  # fmt: skip
DATES = ("date", "day", "dategmt", "dateutc", "datelocal", "datum", "fecha")  # of TIMES: days,
CLOCKS = ("time", "localtime", "timeutc", "utctime", "timegmt", "timelocal", "zeit", "uhrzeit", "hora", "heure")
# ... times of day, and what together is one
CALENDAR = (("year", "yr", "jahr"), ("month", "mon", "monat"), ("day", "dayofmonth", "tag"),
            ("hour", "hr", "hourofday", "stunde"), ("minute",), ("second",))  # fmt: skip
PROJECTED_Y, PROJECTED_X = ("y", "ycoord", "northing", "utmy", "ypos"), ("x", "xcoord", "easting", "utmx", "xpos")
LATITUDES = ("latitude", "lat", "latdeg", "latwgs84", "gpslat", "gpslatitude", "latitud", "latitudine", "breite",
             "breitengrad", *PROJECTED_Y)  # fmt: skip
LONGITUDES = ("longitude", "lon", "long", "lng", "londeg", "lonwgs84", "gpslon", "gpslong", "gpslng", "gpslongitude",
              "longitud", "longitudine", "laenge", "lnge", "laengengrad", "lngengrad", *PROJECTED_X)  # fmt: skip
CARRIERS = ("sensor", "device", "station", "stn", "stid", "site", "probe", "node", "mote", "logger", "buoy", "float",
            "drifter", "platform", "mooring", "glider", "monitor", "instrument", "vehicle", "bus", "wmo", "location",
            "gauge", "gage", "borehole", "piezometer", "tower", "mast", "messstelle", "estacion", "estacin", "stazione",
            "track", "trajectory", "particle", "tracer", "vessel", "ship", "cruise", "animal", "mmsi", "imei",
            "callsign")  # fmt: skip
NUMBERED = ("id", "", "name", "no", "nr", "num", "number", "code", "serial")  # behind what carries the sensor
SENSORS = (*(carrier + ending for carrier in CARRIERS for ending in NUMBERED), "id", "name")
IDENTIFIER = re.compile(r".*(?:[a-z0-9][_\s.-]+(?i:id)|[a-z0-9]I[Dd])")  # trip_id, plotID; no acid, no PID
ERRORS = ("error", "err", "std", "stddev", "sigma", "uncertainty", "obsstd", "standarderror", "stderr")
NEITHER = ("", "index", "unnamed0", "uid", "row", "rowid", "rownumber", "objectid", "fid")  # numbers, but no readings
# Parts of a date, which the time holds already: no readings unless the user names them.
DATE_PARTS = (*(word for words in CALENDAR for word in words if word not in TIMES), "dayofyear", "doy", "dayofweek",
              "weekday", "dow", "week", "weekofyear", "quarter", "season", "isweekend")  # fmt: skip
QUALITY = ("qc", "qcflag", "qcflags", "qccode", "qa", "qaflag", "flag", "flags", "qualityflag", "qualitycode",
           "quality", "dataquality", "dataflag", "datastatus", "validity", "valid", "isvalid", "status", "statusflag",
           "verification", "qualifier", "qualifiers")  # fmt: skip
ANGLES = ("winddir", "winddirection", "wdir", "wd", "dir", "direction", "heading", "bearing", "azimuth", "course",
          "wavedirection", "wavedir", "currentdirection", "flowdirection")  # fmt: skip
ALTITUDES = ("elevation", "elev", "altitude", "alt", "elevationm", "altitudem", "gpsaltitude", "gpsalt",
             "stationelevation", "stationaltitude", "heightabovesealevel", "masl")  # fmt: skip
DEPTHS = ("depth", "depthm", "depthmeters", "sampledepth", "sensordepth", "waterdepth", "tiefe", "profondeur",
          "profundidad", "plev", "pressurelevel")  # fmt: skip

STANDARD = {"time": "time", "latitude": "y", "longitude": "x", "projection_y_coordinate": "y",
            "projection_x_coordinate": "x"}  # fmt: skip
NORTH = ("degrees_north", "degree_north", "degrees_n", "degree_n")
EAST = ("degrees_east", "degree_east", "degrees_e", "degree_e")
METRES = ("m", "km", "metre", "meter", "metres", "meters")
ROLES = {"time": "time", "date": "time", "y": "y", "lat": "y", "latitude": "y", "x": "x", "lon": "x", "long": "x",
         "longitude": "x", "value": "values", "values": "values", "variable": "values", "sensor": "sensor",
         "id": "sensor", "error": "error", "parameter": "parameter"}  # fmt: skip
DEGREES = ("lat", "latitude", "lon", "long", "longitude")  # of ROLES

WORDS = {"time": frozenset(("time", "datetime", "timestamp", "date", "zeit", "uhrzeit", "zeitstempel", "fecha",
                            "hora")),
         "y": frozenset(("lat", "latitude", "latitud", "breite", "breitengrad")),
         "x": frozenset(("lon", "long", "lng", "longitude", "longitud", "laengengrad"))}  # fmt: skip
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # of geo_lat, decimalLatitude, OBS_TIME
WHAT = {"time": "time", "y": "latitude", "x": "longitude", "value": "numbers to read"}

# What frames and maps hold beside the variables: axes, masks, and parts of each variable.
TAKEN = frozenset(("time", "lat", "lon", "latitude", "longitude", "y", "x", "domain", "observed", "never_supervised",
                   "read", "distance_to_sensor", "member", "init_time", "lead_time", "valid_time", "variable",
                   "threshold", "point"))  # fmt: skip
PART = re.compile(r"(.+)_(?:count|spread|error|mean|std|exceedance|given|q\d+)")


def split_units(name: str) -> tuple[str, str]:
    """The label of a column and the unit in brackets behind it.

    >>> split_units("pm2_5 [ug/m3]"), split_units("temp (degC)"), split_units("pm")
    (('pm2_5', 'ug/m3'), ('temp', 'degC'), ('pm', ''))
    """
    found = re.fullmatch(r"\s*(.*\S)\s*(?:\[([^\]]*)\]|\(([^)]*)\))\s*", name)
    if not found:
        return name.strip(), ""
    return found[1].strip(), (found[2] or found[3] or "").strip()


def label(name: str) -> str:
    """A column's name as a variable of a NetCDF file: without units, without signs that NetCDF forbids.

    >>> label("PM 2.5 (ug/m3)"), label("../../-pm")
    ('PM_2.5', 'pm')
    """
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", split_units(name)[0]).strip("_").lstrip("_.+-") or "value"


def is_taken(name: str, variables: Sequence[str]) -> bool:
    """Do frames or maps hold something else under this name: an axis, a mask, or a part of another variable?

    >>> is_taken("pm_count", ["pm", "pm_count"]), is_taken("pm_count", ["pm_count"]), is_taken("domain", [])
    (True, False, True)
    """
    part = PART.fullmatch(name)
    return name in TAKEN or (part is not None and part[1] in variables)


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", split_units(name)[0].lower())


def names_something(name: str) -> bool:
    """Does a column say who read, rather than what was read?

    >>> [names_something(name) for name in ("probe_id", "float", "Station No", "tripId", "pm_2.5", "grid", "NO", "pid")]
    [True, True, True, True, False, False, False, False]
    """
    return plain(name) in SENSORS or IDENTIFIER.fullmatch(split_units(name)[0]) is not None
