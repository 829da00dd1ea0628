"""Files that Python's own packages read: HDF5, NetCDF, TDMS, MDF, MAT, miniSEED, WFDB, XDF, MCAP, EDF.

`read_file` returns a file's streams; a module for each format lists them, in the shape of `_group`. The packages are optional,
and imported when a file asks for one. `tallycast pub --file` reads such files through `__main__`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tallycast._errors import FileError, of_arguments
from tallycast.readers._group import FileBlock, FileStream, FileStreams

__all__ = ["FORMATS", "FileBlock", "FileStream", "FileStreams", "read_file"]

#: Modules by the extension of a file.
FORMATS = {
    ".h5": "_hdf5", ".hdf5": "_hdf5", ".hdf": "_hdf5", ".nxs": "_hdf5", ".nx5": "_hdf5",
    ".nc": "_netcdf", ".nc4": "_netcdf", ".cdf": "_netcdf",
    ".tdms": "_tdms",
    ".mf4": "_mdf", ".mdf": "_mdf", ".mf3": "_mdf",
    ".mat": "_mat",
    ".mseed": "_mseed", ".miniseed": "_mseed", ".msd": "_mseed", ".ms": "_mseed", ".mseed3": "_mseed",
    ".hea": "_wfdb",
    ".xdf": "_xdf", ".xdfz": "_xdf",
    ".mcap": "_mcap",
    ".edf": "_edf", ".bdf": "_edf",
}  # fmt: skip


class Request(NamedTuple):
    """A file, and its time column or data set if that was named."""

    path: Path
    time: str | None = None

    def no_time(self, kind: str) -> None:
        """Refuses a time column where the format has its own times."""
        if self.time is not None:
            raise FileError(f"{self.path}: {kind} has times of its own\nomit the time column")

    def known_time(self, names: Iterable[str], kind: str) -> None:
        """Refuses a time column that is none of these."""
        known = list(dict.fromkeys(names))
        if self.time is not None and self.time not in known:
            raise FileError(f"{self.path} has no {kind} {self.time} of times\nit has: {', '.join(known) or 'none'}")


@of_arguments()
def read_file(path: str | os.PathLike[str], *, time: str | None = None) -> FileStreams:
    """Returns the streams of a file: channels with units, rate, start, and blocks with their gaps.

    ``time`` names the time column or data set of an HDF5, NetCDF, MAT or TDMS file, where it is not called `time` or `t`.

    >>> read_file("run7.tdms")["Motor"].array  # doctest: +SKIP

    Raises:
        FileError: if it is no such file, or has no numbers.
        MissingPackage: if the package that reads it is not installed; the text has the command that installs it.
    """
    request = Request(Path(path), time)
    module = FORMATS.get(request.path.suffix.lower())
    if module is None:
        raise FileError(
            f"unknown file type {request.path}\nsupported are {' '.join(FORMATS)}; CSV, WAV, NPY and Parquet by `tallycast pub --file`"
        )
    if not request.path.is_file():
        raise FileError(f"there is no file {request.path}")
    reader = importlib.import_module(f"{__name__}.{module}")
    return FileStreams(request.path, lambda: reader.streams(request))
