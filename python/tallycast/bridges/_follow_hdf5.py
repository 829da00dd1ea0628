"""Follows a dataset of an HDF5 file that is written with SWMR: single writer, multiple readers.

Rows are identified by their position. A file may replace the previous one, be rewritten in place, or lose rows at its end:
rereading the first and the newest rows distinguishes these cases.

A row may have its place before it has its content: in a dataset made at its full size, or enlarged first and filled later. Such
rows hold the fill value. They are read once a row behind them has content; of a dataset without times also once it has grown
beyond them. Those that never get there are in the account (``unwritten``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

import tallycast as tc
from tallycast._samples import runs
from tallycast._schema import dtype_name, widened

from ._feed import Form
from ._file_stream import OTHER_FILE, FileStream, Place
from ._feed_publisher import FeedPublisher
from ._payload import TIME_UNITS, TIMES_NS
from ._run import needed

#: So much is read at once.
PIECE_BYTES = 4 << 20
#: Number of first and of newest rows that are kept, to verify that they are still there.
TRACE_ROWS = 64

#: Exceptions of h5py for an unreadable file: during a write, without SWMR, or not an HDF5 file.
UNREADABLE = (OSError, RuntimeError, KeyError, ValueError)


@dataclass(frozen=True)
class _Trace:
    """Samples of the rows that were read before ``position``."""

    position: int = 0
    first: bytes = b""
    newest: bytes = b""


@dataclass(frozen=True)
class _Rows:
    """Rows read at once."""

    form: Form
    values: Any
    #: Their times, and which of them a stream can have; both None without times.
    stamps: Any
    timely: Any
    trace: _Trace


class Hdf5Follower:
    """One growing dataset as one stream: samples are its rows, ``[samples, *sample]``."""

    def __init__(
        self,
        place: Place,
        dataset: str,
        publisher: FeedPublisher,
        *,
        channel: str,
        unit: str | None,
        time_dataset: str | None,
        time_unit: str,
        regular: bool,
    ) -> None:
        self._h5py = needed("h5py", "hdf5")
        self._path = place.path
        self._dataset = dataset
        self._stream = FileStream(place, publisher, regular=regular)
        self._channel = channel
        self._unit = unit
        self._time = time_dataset
        self._time_unit = time_unit
        self._begin = place.begin
        self._file: Any = None
        self._inode: tuple[int, int] | None = None
        self._position = 0
        self._trace = _Trace()
        self._said = ""
        #: Number of rows when last looked at, and of those that had their place before it grew.
        self._extent = 0
        self._settled = 0
        self.replaced = 0
        self.rewritten = 0
        self.shrunk = 0

    def turn(self) -> bool:
        """Reads the available data; returns whether there were any."""
        if self._file is None and not self._find():
            return False
        moved = self._try_read()
        if not moved and self._file is not None:
            moved = self._follow_name()
        self._save()
        return moved

    def finish(self) -> None:
        """Reads the rest."""
        while self._file is not None and self._try_read():
            pass
        if self._extent > self._position:
            advice = "" if self._time else "\nname the dataset of times with --time, which shows the rows that are written"
            text = f"the last {self._extent - self._position} rows of {self._path}:{self._dataset} hold the fill value: not published"
            self._stream.say("unwritten", text + advice)
        self._save()

    def close(self) -> dict[str, Any]:
        """Ends; returns the account."""
        account = self._stream.close()
        self._close()
        return {
            **account,
            "rows": self._position,
            "replaced": self.replaced,
            "rewritten": self.rewritten,
            "shrunk": self.shrunk,
            "unwritten": max(self._extent - self._position, 0),
        }

    def _find(self) -> bool:
        """Opens the file, if there is one with this dataset."""
        try:
            # Without locks: a writer with SWMR has the file, and means us to read it.
            self._file = self._h5py.File(self._path, "r", libver="latest", swmr=True, locking=False)
            data, times, end = self._parts()
            stat = os.stat(self._path)
            inode = (stat.st_dev, stat.st_ino)
            if self._inode != inode:
                self._begin_file(inode, data, times, end)
        except tc.ConfigError as error:
            self._away(f"{self._path}:{self._dataset} cannot be a stream: {error}")
            self._close()
            return False
        except UNREADABLE as error:
            self._away(f"{self._path}:{self._dataset} is missing: {error}; waiting for it")
            self._close()
            return False
        return True

    def _begin_file(self, inode: tuple[int, int], data: Any, times: Any, end: int) -> None:
        """Goes to where reading begins in a file that was not read before."""
        if self._inode is not None:
            self.replaced += 1
            # A file that could not be read to its end is absent until the first row of the new one.
            self._said = ""
        self._inode = inode
        self._position, self._trace = 0, _Trace()
        self._extent = self._settled = 0
        begin, self._begin = self._begin, "beginning"
        if begin == "now":
            written = _last_written(data if times is None else times, end)
            self._position, self._trace = written, _trace(data, times, written)
        elif begin == "resume":
            self._resume(inode)

    def _parts(self) -> tuple[Any, Any, int]:
        """Returns the dataset, that of the times, and how many rows there are."""
        data = self._file[self._dataset]
        if not isinstance(data, self._h5py.Dataset) or data.ndim == 0 or data.dtype.kind not in "biufc":
            raise KeyError(f"it is {data}; only arrays of numbers can be samples")
        dtype_name(data.dtype)
        data.refresh()
        if self._time is None:
            return data, None, int(data.shape[0])
        times = self._file[self._time]
        times.refresh()
        # A row is there when both of its parts are.
        return data, times, min(int(data.shape[0]), int(times.shape[0]))

    def _try_read(self) -> bool:
        """Reads the next rows; returns whether there were any."""
        try:
            rows = self._read()
        except UNREADABLE as error:
            # Look again: whether it is another file by then is seen by its rows.
            self._away(f"cannot read {self._path} at present: {error}")
            self._close()
            return False
        if rows is None:
            return False
        self._publish(rows)
        self._position, self._trace = rows.trace.position, rows.trace
        return True

    def _read(self) -> _Rows | None:
        data, times, end = self._parts()
        if end != self._position or self._said:
            self._check(data, times, end)
        end = self._end_of_content(data, times, end)
        if end <= self._position:
            return None
        end = min(end, self._position + _rows_at_once(data))
        values = np.ascontiguousarray(data[self._position : end])
        values = values.astype(widened(values.dtype).newbyteorder("<"), copy=False)
        stamps, timely = (None, None) if times is None else self._stamps(times[self._position : end])
        return _Rows(self._form(data, values), values, stamps, timely, _trace(data, times, end))

    def _end_of_content(self, data: Any, times: Any, end: int) -> int:
        """Returns the row behind the last one that has its content."""
        if end > self._extent:
            # Its writer has gone on to other rows.
            self._settled = self._extent
        self._extent = end
        if times is not None:
            return _written(times, self._position, end)
        return max(_written(data, self._position, end), min(self._settled, end))

    def _publish(self, rows: _Rows) -> None:
        """Publishes rows; those with a time that a stream cannot have are refused."""
        if rows.stamps is None:
            self._stream.rows(rows.form, rows.values, None)
            return
        for first, end, timely in runs(rows.timely):
            if timely:
                self._stream.rows(rows.form, rows.values[first:end], rows.stamps[first:end])
            else:
                for _ in range(first, end):
                    self._stream.refuse("a time is no number, or outside the years 1678 to 2261\ncheck --time-unit")

    def _check(self, data: Any, times: Any, end: int) -> None:
        """Verifies that the rows read are still there, and otherwise moves to the position at which reading continues."""
        before = self._trace
        now = _trace(data, times, min(before.position, end))
        # Without rows nothing is known: this is a dataset that restarts.
        first_are_there = before.position == 0 or (end > 0 and before.first.startswith(now.first))
        if first_are_there and end >= before.position and now.newest == before.newest:
            if self._said and self._stream.has_begun:
                # Rows are read by their place: what could not be read meanwhile is read now.
                self._stream.back()
        elif first_are_there and end < before.position:
            self.shrunk += 1
            self._go_on(data, times, end, "shrunk", f"shrank from {before.position} to {end} rows")
        else:
            self.rewritten += 1
            self._go_on(data, times, 0, "rewritten", "was rewritten")
        self._said = ""

    def _go_on(self, data: Any, times: Any, position: int, event: str, what: str) -> None:
        self._position, self._trace = position, _trace(data, times, position)
        text = f"{self._path}:{self._dataset} {what}; the rows added before that are unknown"
        # A file that could not be read before is absent already: its replacement is reported all the same.
        self._stream.say(event, text)
        self._stream.away(text)

    def _form(self, data: Any, values: Any) -> Form:
        unit = self._unit if self._unit is not None else _text(data.attrs.get("units", ""))
        labels = (("file", self._path), ("dataset", self._dataset))
        return Form(((self._channel, unit),), values.dtype, tuple(values.shape[1:]), labels)

    def _stamps(self, times: Any) -> tuple[Any, Any]:
        """Returns times in nanoseconds, and which of them are within 64 bits of them."""
        unit = TIME_UNITS[self._time_unit]
        if times.dtype.kind in "iu":
            timely = (times > TIMES_NS.start // unit) & (times < TIMES_NS.stop // unit)
            return np.where(timely, times, 0).astype(np.int64) * unit, timely
        nanos = np.round(times.astype(np.float64) * unit)
        timely = (nanos > TIMES_NS.start) & (nanos < TIMES_NS.stop)
        return np.where(timely, nanos, 0).astype(np.int64), timely

    def _follow_name(self) -> bool:
        """Looks whether the name belongs to another file by now; the old one has been read to its end."""
        try:
            stat = os.stat(self._path)
        except OSError:
            # A file without a name may still grow, and one of this name may come.
            return False
        if (stat.st_dev, stat.st_ino) == self._inode or self._try_read() or self._file is None:
            return False
        self._stream.say("replaced", f"{self._path} is another file: the one before was read to its end")
        self._close()
        return self._find()

    def _away(self, why: str) -> None:
        if self._said != why:
            self._said = why
            self._stream.away(why)

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _resume(self, inode: tuple[int, int]) -> None:
        """Continues at the position of the state, if it is still the same file."""
        if (state := self._stream.state()) is None:
            return
        try:
            if [*inode, self._dataset] != [*state["inode"], state["dataset"]]:
                self._stream.away(OTHER_FILE)
                return
            self._position = int(state["rows"])
            self._trace = _Trace(self._position, bytes.fromhex(state["first"]), bytes.fromhex(state["newest"]))
        except (ValueError, KeyError, TypeError) as error:
            raise self._stream.bad_state(error) from None

    def _save(self) -> None:
        if self._inode is None:
            return
        traces = {"first": self._trace.first.hex(), "newest": self._trace.newest.hex()}
        self._stream.save({"inode": list(self._inode), "dataset": self._dataset, "rows": self._position, **traces})


def _trace(data: Any, times: Any, position: int) -> _Trace:
    """Returns what is kept of the rows before a position."""
    few = min(TRACE_ROWS, position)
    return _Trace(position, _lines(data, times, 0, few), _lines(data, times, position - few, position))


def _lines(data: Any, times: Any, first: int, end: int) -> bytes:
    """Returns some rows in part: of each its time and the first line along its last axis, so that images cost little."""
    if first == end:
        return b""
    place = (slice(first, end), *[0] * (data.ndim - 2))
    lines = np.ascontiguousarray(data[place]).reshape(end - first, -1)
    rows = [line.tobytes() for line in lines]
    stamps = [b""] * len(rows) if times is None else [stamp.tobytes() for stamp in np.asarray(times[first:end])]
    return b"".join(stamp + row for stamp, row in zip(stamps, rows))


def _rows_at_once(data: Any) -> int:
    row_bytes = max(int(np.prod(data.shape[1:], dtype=np.int64)) * int(data.dtype.itemsize), 1)
    return max(PIECE_BYTES // row_bytes, 1)


def _written(data: Any, first: int, end: int) -> int:
    """Returns the row behind some that hold anything but the fill value, `first` if no row from there on up to `end` does."""
    step, reach, place = _rows_at_once(data), end, first
    while place < reach:
        filled = np.flatnonzero(_is_filled(data[place : min(place + step, end)], data.fillvalue))
        if len(filled):
            return place + int(filled[-1]) + 1
        if place == first:
            reach = _allocated_rows(data, end)
        place += step
    return first


def _last_written(data: Any, end: int) -> int:
    """Returns the row behind the last one before `end` that holds anything but the fill value."""
    step, end = _rows_at_once(data), _allocated_rows(data, end)
    while end > 0:
        first = max(end - step, 0)
        filled = np.flatnonzero(_is_filled(data[first:end], data.fillvalue))
        if len(filled):
            return first + int(filled[-1]) + 1
        end = first
    return 0


def _is_filled(rows: Any, fill: Any) -> Any:
    """Returns which rows hold anything but the fill value."""
    elements = rows.reshape(len(rows), -1)
    is_fill = np.isnan(elements) if fill != fill else elements == fill
    return ~is_fill.all(axis=1)


def _allocated_rows(data: Any, end: int) -> int:
    """Returns the row behind the last chunk that has been written, where chunks are runs of whole rows; else `end`."""
    if data.chunks is None or tuple(data.chunks[1:]) != tuple(data.shape[1:]):
        return end
    return min(int(data.id.get_num_chunks()) * int(data.chunks[0]), end)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
