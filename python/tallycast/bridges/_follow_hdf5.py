"""Follows a dataset of an HDF5 file that is written with SWMR: single writer, multiple readers."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np

from ._csv_tail import EARLIEST_MOMENT_NS
from ._feed import Feed, Form
from ._follow_csv import write_state
from ._outlet import Outlet
from ._payload import TIME_UNITS
from ._run import needed

#: So much is read at once.
PIECE_BYTES = 4 << 20


class Hdf5Follower:
    """One growing dataset as one stream: samples are its rows, ``[samples, *sample]``."""

    def __init__(
        self,
        path: str,
        dataset: str,
        outlet: Outlet,
        *,
        channel: str,
        unit: str | None,
        time_dataset: str | None,
        time_unit: str,
        begin: str,
        state: str | None,
        regular: bool,
    ) -> None:
        self._h5py = needed("h5py", "hdf5")
        self._path = path
        self._dataset = dataset
        self._outlet = outlet
        self._feed: Feed = outlet.feed
        self._channel = channel
        self._unit = unit
        self._time = time_dataset
        self._time_unit = time_unit
        self._begin = begin
        self._state_path = state
        self._regular = regular
        self._file: Any = None
        self._inode: tuple[int, int] | None = None
        self._position = 0
        self._offset_ns: int | None = None
        self._said = ""
        self._saved = -1
        self.replaced = 0

    def turn(self) -> bool:
        """Reads what is there; tells whether there was anything."""
        if self._file is None and not self._find():
            return False
        try:
            moved = self._read()
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            # A writer in the middle of something, or one that did not open with SWMR: look again.
            self._away(f"{self._path} cannot be read now: {error}")
            self._close()
            return False
        if not moved:
            self._follow_name()
        self._save()
        return moved

    def close(self) -> dict[str, Any]:
        """Ends; returns the account."""
        while self._file is not None and self.turn():
            pass
        self._save()
        account = self._outlet.close(time.time_ns())
        self._close()
        return {**account, "rows": self._position, "replaced": self.replaced}

    def _find(self) -> bool:
        try:
            # Without locks: a writer with SWMR has the file, and means us to read it.
            self._file = self._h5py.File(self._path, "r", libver="latest", swmr=True, locking=False)
            data = self._file[self._dataset]
            stat = os.stat(self._path)
        except (OSError, KeyError) as error:
            self._away(f"{self._path}:{self._dataset} is not there: {error}; waiting for it")
            self._close()
            return False
        if self._said and self._feed.form is not None:
            # Rows are read by their place: what could not be read meanwhile is read now.
            self._outlet.do(self._feed.back(time.time_ns()))
        self._said = ""
        inode = (stat.st_dev, stat.st_ino)
        if self._inode != inode:
            if self._inode is not None:
                self._position = 0
            self._inode = inode
            begin, self._begin = self._begin, "beginning"
            if begin == "now":
                self._position = int(data.shape[0]) if data.ndim else 0
            elif begin == "resume":
                self._resume(inode)
        return True

    def _read(self) -> bool:
        data = self._file[self._dataset]
        data.refresh()
        if data.ndim == 0 or data.dtype.kind not in "biufc":
            self._away(f"{self._dataset} is {data.dtype} {list(data.shape)}: only arrays of numbers can be samples")
            return False
        end = int(data.shape[0])
        times = None
        if self._time is not None:
            times = self._file[self._time]
            times.refresh()
            # A row is there when both of its parts are.
            end = min(end, int(times.shape[0]))
        if end < self._position:
            self._outlet.do(
                self._feed.away(f"{self._dataset} shrank from {self._position} to {end} rows", time.time_ns())
            )
            self._position = end
            return True
        if end == self._position:
            return False
        row_bytes = max(int(np.prod(data.shape[1:], dtype=np.int64)) * data.dtype.itemsize, 1)
        end = min(end, self._position + max(PIECE_BYTES // row_bytes, 1))
        values = np.ascontiguousarray(data[self._position : end])
        values = values.astype(values.dtype.newbyteorder("<"), copy=False)
        stamps = None if times is None else self._stamps(times[self._position : end])
        self._position = end
        self._take(data, values, stamps)
        return True

    def _take(self, data: Any, values: Any, stamps: Any) -> None:
        unit = self._unit if self._unit is not None else _text(data.attrs.get("units", ""))
        labels = (("file", self._path), ("dataset", self._dataset))
        form = Form(((self._channel, unit),), values.dtype, tuple(values.shape[1:]), labels)
        now_ns = time.monotonic_ns()
        if stamps is not None:
            self._outlet.do(self._feed.rows(form, values, stamps, now_ns))
        elif self._regular:
            self._outlet.do(self._feed.update(form, values, None, now_ns))
        else:
            arrived = np.full(len(values), time.time_ns(), dtype=np.int64)
            self._outlet.do(self._feed.update(form, values, int(arrived[0]), now_ns, times_ns=arrived))

    def _stamps(self, times: Any) -> Any:
        if times.dtype.kind in "iu":
            stamps = times.astype(np.int64) * TIME_UNITS[self._time_unit]
        else:
            stamps = np.round(times.astype(np.float64) * TIME_UNITS[self._time_unit]).astype(np.int64)
        if self._offset_ns is None:
            self._offset_ns = 0 if int(stamps[0]) >= EARLIEST_MOMENT_NS else time.time_ns() - int(stamps[0])
        return stamps + self._offset_ns

    def _follow_name(self) -> None:
        """Looks whether the name belongs to another file by now."""
        try:
            stat = os.stat(self._path)
        except OSError:
            return
        if (stat.st_dev, stat.st_ino) != self._inode:
            self.replaced += 1
            self._close()

    def _away(self, why: str) -> None:
        if self._said != why:
            self._said = why
            self._outlet.do(self._feed.away(why, time.time_ns()))

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _resume(self, inode: tuple[int, int]) -> None:
        assert self._state_path is not None
        try:
            with open(self._state_path, encoding="utf-8") as file:
                state = json.load(file)
            if [*inode, self._dataset] == [*state["inode"], state["dataset"]]:
                self._position = int(state["rows"])
            else:
                self._outlet.do(
                    self._feed.away("the file is not the one that was read before: from its beginning", time.time_ns())
                )
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the state {self._state_path} cannot be read: {error}\nremove it to begin anew") from None

    def _save(self) -> None:
        if self._state_path is None or self._inode is None or self._saved == self._position:
            return
        write_state(self._state_path, {"inode": list(self._inode), "dataset": self._dataset, "rows": self._position})
        self._saved = self._position


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
