"""Tables of readings: read in a stream, refuse with a reason, put on a grid."""

from .areas import area_mask, area_weights
from .frames import open_frames, save_frames
from .table import Columns, Refused, Rows, Table, open_table

__all__ = [
    "Columns",
    "Refused",
    "Rows",
    "Table",
    "area_mask",
    "area_weights",
    "open_frames",
    "open_table",
    "save_frames",
]
