"""Files that survive a kill, a full disk and a flipped bit: safetensors + JSON, nothing pickled.

Everything is written under a temporary name beside its place, flushed to the disk, and renamed: at every moment what
has the name is the old thing or the new one, in full. A failure removes what was begun and is one line for the user.
JSON carries the SHA-256 of its own content and tensors are read against theirs, so that damage is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import SolidError

if TYPE_CHECKING:  # `solid check` reads and writes files without waiting for these
    import pandas as pd
    import xarray as xr
    from torch import Tensor

TEMPORARY = ".tmp-"
BOMB, EXPANSION = 4 << 30, 1000  # bytes that a file may declare; beyond, at most so many times its size on disk
HDF5 = b"\x89HDF\r\n\x1a\n"  # how its files begin
ROOM = "make room there or choose another place, what was there is untouched"


class Damaged(SolidError):
    """A file whose bytes are not those that were written."""


def refuse_existing(path: Path, remedy: str = "remove it or choose another name", besides: Container[str] = ()) -> None:
    """What somebody made before is never written over; a folder with only `besides` and half files is nobody's."""
    if path.exists() and not (path.is_dir() and only_begun(path, besides)):
        raise SolidError(f"{path} exists and is never written over; {remedy}")


def only_begun(folder: Path, besides: Container[str] = ()) -> bool:
    """Does the folder hold nothing but `besides` and what a killed process left half written?"""
    return all(entry.name in besides or entry.name.startswith(TEMPORARY) for entry in folder.iterdir())


@contextmanager
def writing(path: Path, remedy: str = ROOM) -> Iterator[None]:
    """Turn what the system says of a failed write into one line for the user."""
    try:
        yield
    except OSError as error:
        raise SolidError(f"cannot write {path}: {error.strerror or error}; {remedy}") from error


@contextmanager
def atomic(path: Path, remedy: str = ROOM) -> Iterator[Path]:
    """A place beside `path` to write a file or a folder to: it takes the name when all went well, else it vanishes.

    What has the name already is replaced. A folder's files are flushed by whoever writes them (`write_bytes`), as far
    as they must outlive a power cut.
    """
    temporary, old = (path.with_name(f"{TEMPORARY}{kind}{path.name}") for kind in ("", "old-"))
    with writing(path, remedy):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            remove(temporary)
            remove(old)
            yield temporary
            flush(temporary)
            if path.is_dir():
                os.rename(path, old)  # a folder cannot be renamed onto another
            os.rename(temporary, path)
            flush(path.parent)
        except BaseException:
            remove(temporary)
            if old.exists() and not path.exists():
                os.rename(old, path)
            raise
        if old.exists():
            remove(old)


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def clean(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for left in folder.glob(TEMPORARY + "*"):
        remove(left)


def flush(path: Path) -> None:
    """Bring a file, or the list of names of a folder, from the system's cache to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    """Write and flush to the disk, not only to the system's cache."""
    path.write_bytes(content)
    flush(path)


def replace(path: Path, content: bytes) -> None:
    """Put new content in place of a file in one step: a reader meets the old one or the new one."""
    with atomic(path) as part:
        part.write_bytes(content)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    replace(path, sealed(document))


def plain(value: Any, digits: int | None = None) -> Any:
    """Records, arrays and NumPy scalars as JSON knows them; what is not finite becomes None.

    With `digits`, numbers have so many significant ones.

    >>> plain({"crps": np.float32(0.5), "found": (np.int64(2), np.nan)}), plain(1.23456, 3)
    ({'crps': 0.5, 'found': [2, None]}, 1.23)
    """
    if isinstance(value, Mapping):
        return {str(name): plain(item, digits) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict(), digits)
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name), digits) for one in fields(value)}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(item, digits) for item in value]
    if isinstance(value, float | np.floating):
        return float(value if digits is None else f"{value:.{digits}g}") if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def digest(document: Any) -> str:
    """The SHA-256 of a plain value's canonical JSON: the hash of a configuration in provenance."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(document: Mapping[str, Any]) -> bytes:
    """JSON text with the hash of its own content, so that a changed digit is noticed."""
    return (json.dumps({**document, "sha256": digest(document)}, indent=2) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
        seal = document.pop("sha256")
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise Damaged(f"{path} is damaged: it is not the JSON that was written") from None
    if digest(document) != seal:
        raise Damaged(f"{path} is damaged: its content does not match its checksum")
    return document


def pack(tensors: Mapping[str, Tensor]) -> tuple[bytes, str]:
    """The tensors as safetensors bytes, and their SHA-256; tied tensors are stored once for each name."""
    from safetensors.torch import save

    content = save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
    return content, hashlib.sha256(content).hexdigest()


def read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    from safetensors.torch import load

    try:
        content = path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Damaged(f"{path} is damaged: its {len(content)} bytes do not match their checksum")
    try:
        return load(content)
    except Exception as error:  # whatever safetensors makes of other bytes
        raise Damaged(f"{path} holds no tensors ({error}); copy it again") from None


def save_dataset(data: xr.Dataset, path: Path, packed: bool = False) -> None:
    """Write NetCDF (.nc, compressed where `packed`) or Zarr (.zarr), by the name's ending."""
    check_ending(path)
    with atomic(path) as part:
        if path.suffix == ".zarr":
            data.to_zarr(part, mode="w", consolidated=False)
            return
        encoding = {str(name): _coordinate(data[name]) for name in data.coords}
        encoding |= {str(name): {"zlib": True, "complevel": 1} for name in data.data_vars if packed}
        try:
            data.to_netcdf(part, engine="netcdf4", encoding=encoding)
        except RuntimeError as error:  # what HDF5 makes of a full disk
            raise OSError(str(error)) from error


def save_table(table: pd.DataFrame, path: Path) -> None:
    """Write rows as CSV (.csv) or Parquet (.parquet), by the name's ending."""
    check_table_ending(path)
    with atomic(path) as part:
        if path.suffix == ".csv":
            table.to_csv(part, index=False)
        else:
            table.to_parquet(part, index=False)


def check_table_ending(path: Path) -> None:
    """Refuse a name that says neither CSV nor Parquet, and Parquet without its library, before any work is done."""
    if path.suffix not in (".csv", ".parquet"):
        raise SolidError(f"cannot write {path}: end the name in .csv or .parquet")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise SolidError(f"writing {path} needs pyarrow; install solidfield[parquet], or end the name in .csv")


def _coordinate(values: xr.DataArray) -> dict[str, Any]:
    """How CF wants a coordinate to be written: without a fill value, in no type of 64 bits but float."""
    if values.dtype.kind == "M":
        return {"dtype": "float64", "units": "seconds since 1970-01-01", "calendar": "standard", "_FillValue": None}
    if values.dtype.kind == "m":
        return {"dtype": "float64", "units": "seconds", "_FillValue": None}
    if values.dtype.kind == "i" and abs(values).max() < 2**31:
        return {"dtype": "int32"}
    return {"_FillValue": None} if values.dtype.kind == "f" else {}


def check_ending(path: Path) -> None:
    """Refuse a name that says neither NetCDF nor Zarr, before any work is done for it."""
    if path.suffix not in (".nc", ".zarr"):
        raise SolidError(f"cannot write {path}: end the name in .nc (NetCDF) or .zarr")


def open_dataset(path: Path, remedy: str, **options: Any) -> xr.Dataset:
    """NetCDF or Zarr by the name's ending; values are read from the file when they are used."""
    import xarray as xr

    try:
        if path.suffix == ".zarr":
            data = xr.open_zarr(path, consolidated=False, chunks=None, **options)
        else:
            refuse_links(path)
            data = xr.open_dataset(path, **options)
    except SolidError:
        raise
    except Exception as error:  # NetCDF, HDF5, Zarr and the decoder of times each fail in their own way
        text = " ".join(str(error).split())[:120]
        raise SolidError(f"{path} is damaged, cut short or no NetCDF/Zarr file ({text}); {remedy}") from None
    there = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")))
    if data.nbytes > max(BOMB, EXPANSION * there):
        data.close()
        raise SolidError(
            f"{path} declares {data.nbytes / 2**30:,.0f} GiB in {there / 1000:,.0f} kB on the disk, like a "
            "decompression bomb; if it is sound, cut it into parts"
        )
    return data


def refuse_links(path: Path) -> None:
    """Refuse HDF5 whose values lie in other files: who opens a file did not agree to open what it points to."""
    with open(path, "rb") as content:
        if content.read(8) != HDF5:
            return
    import h5py

    with h5py.File(path, "r") as file:
        waiting, seen = [file["/"]], set()
        while waiting:
            group = waiting.pop()
            if group.id in seen:  # a group may hold itself
                continue
            seen.add(group.id)
            for name in group:
                link = group.get(name, getlink=True)
                item = group[name] if isinstance(link, h5py.HardLink) else None
                if isinstance(item, h5py.Group):
                    waiting.append(item)
                outside = isinstance(item, h5py.Dataset) and (item.is_virtual or item.external)
                if outside or isinstance(link, h5py.ExternalLink):
                    raise SolidError(f"{path} takes '{name}' from another file; copy its values into one file first")
