"""Follows a CSV file on disk: what is appended, what is cut off, what takes its place."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._csv_tail import EARLIEST_MOMENT_NS, CsvTail, Rows, TableError, TableOptions
from ._feed import Feed, Form
from ._outlet import Outlet

#: So much is read at once.
PIECE_BYTES = 1 << 20
#: So many bytes before the place of reading are compared, to see that it is still the same file.
TRACE_BYTES = 256
#: The state is written no more often than this. Units: seconds.
SAVE_EVERY = 1.0


@dataclass
class _Open:
    """A file that is open."""

    descriptor: int
    inode: tuple[int, int]
    #: What was read of it, partial last line included.
    position: int
    #: The bytes before `position`.
    trace: bytes


class CsvFollower:
    """One CSV file as one stream."""

    def __init__(
        self, path: str, outlet: Outlet, options: TableOptions, *, begin: str, state: str | None, regular: bool
    ) -> None:
        self._path = path
        self._outlet = outlet
        self._feed: Feed = outlet.feed
        self._options = options
        self._state_path = state
        self._regular = regular
        self._tail = CsvTail(options)
        self._open: _Open | None = None
        self._begin = begin
        self._offset_ns: int | None = None
        self._saved_at = 0.0
        self._saved: dict[str, Any] = {}
        self._said_absent = False
        self.rotations = 0
        self.truncations = 0

    def turn(self) -> bool:
        """Reads what is there; tells whether there was anything."""
        if self._open is None and not self._find():
            return False
        moved = self._read()
        if not moved:
            moved = self._follow_name()
        self._save(force=False)
        return moved

    def close(self) -> dict[str, Any]:
        """Ends; returns the account."""
        while self._open is not None and self._read():
            pass
        self._save(force=True)
        account = self._outlet.close(time.time_ns())
        if self._open is not None:
            os.close(self._open.descriptor)
        return {
            **account,
            "rotations": self.rotations,
            "truncations": self.truncations,
            "position": self._tail.position,
            "partial_line_bytes": self._tail.partial_bytes,
        }

    def _find(self) -> bool:
        """Opens the file, if there is one."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if not self._said_absent:
                self._said_absent = True
                self._outlet.do(self._feed.away(f"{self._path}: {error.strerror}; waiting for it", time.time_ns()))
            return False
        if self._said_absent and self._feed.form is not None:
            # The file before was read to its end: while there was none, nothing was written.
            self._outlet.do(self._feed.back(time.time_ns()))
        self._said_absent = False
        stat = os.fstat(descriptor)
        self._open = _Open(descriptor, (stat.st_dev, stat.st_ino), 0, b"")
        self._tail = CsvTail(self._options)
        begin, self._begin = self._begin, "beginning"
        if begin == "resume":
            self._resume(stat)
        elif begin == "now":
            self._skip_to_end(stat.st_size)
        return True

    def _skip_to_end(self, size: int) -> None:
        """Goes to the last line that is complete; the first one is read all the same."""
        assert self._open is not None
        head = os.pread(self._open.descriptor, PIECE_BYTES, 0)
        header = _first_line(head)
        last = os.pread(self._open.descriptor, PIECE_BYTES, max(size - PIECE_BYTES, 0))
        newline = last.rfind(b"\n")
        position = 0 if newline < 0 else size - len(last) + newline + 1
        if position and header is not None:
            self._go_to(position, header)

    def _go_to(self, position: int, header: str | None) -> None:
        assert self._open is not None
        self._tail.skip_to(position, header)
        self._open.position = position
        self._open.trace = os.pread(
            self._open.descriptor, min(TRACE_BYTES, position), position - min(TRACE_BYTES, position)
        )

    def _resume(self, stat: os.stat_result) -> None:
        """Goes on where the state says that it ended, if it is still the same file."""
        assert self._open is not None and self._state_path is not None
        try:
            with open(self._state_path, encoding="utf-8") as file:
                state = json.load(file)
            position, trace, header = int(state["position"]), bytes.fromhex(state["trace"]), state["header"]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TableError(f"the state {self._state_path} cannot be read: {error}\nremove it to begin anew") from None
        before = os.pread(self._open.descriptor, len(trace), position - len(trace)) if position >= len(trace) else b""
        if position > stat.st_size or before != trace:
            self._outlet.do(
                self._feed.away("the file is not the one that was read before: from its beginning", time.time_ns())
            )
            return
        self._go_to(position, header)

    def _read(self) -> bool:
        """Reads the next piece; tells whether there was one."""
        it = self._open
        assert it is not None
        size = os.fstat(it.descriptor).st_size
        if size < it.position or (size > it.position and not self._is_same(it)):
            self._truncated(it)
            return True
        if size == it.position:
            return False
        data = os.pread(it.descriptor, PIECE_BYTES, it.position)
        it.position += len(data)
        it.trace = (it.trace + data)[-TRACE_BYTES:]
        rows = self._tail.feed(data)
        if rows is not None:
            self._take(rows)
        return True

    def _is_same(self, it: _Open) -> bool:
        """Tells whether what was read is still there: who was cut off may have grown again meanwhile."""
        return os.pread(it.descriptor, len(it.trace), it.position - len(it.trace)) == it.trace

    def _truncated(self, it: _Open) -> None:
        self.truncations += 1
        self._drop_partial()
        self._outlet.do(
            self._feed.away(f"{self._path} was cut off; what it had gained before is not known", time.time_ns())
        )
        it.position, it.trace = 0, b""
        self._tail = CsvTail(self._options)

    def _follow_name(self) -> bool:
        """Looks whether the name belongs to another file by now; the old one has been read to its end."""
        it = self._open
        assert it is not None
        try:
            stat = os.stat(self._path)
        except OSError:
            # A file without a name may still grow, and one of this name may come.
            return False
        if (stat.st_dev, stat.st_ino) == it.inode or self._read():
            return False
        self.rotations += 1
        self._drop_partial()
        os.close(it.descriptor)
        self._open = None
        return self._find()

    def _drop_partial(self) -> None:
        if self._tail.partial_bytes:
            self._outlet.do(self._feed.refuse("the last line has no end, and the file has one", time.monotonic_ns()))

    def _take(self, rows: Rows) -> None:
        columns = self._tail.columns
        assert columns is not None
        form = Form(
            tuple((name, unit) for _, name, unit in columns.channels), self._options.dtype, (), (("file", self._path),)
        )
        begun = 0
        for before, why in [*rows.refused, (len(rows.values), "")]:
            if before > begun:
                self._rows(form, rows, begun, before)
                begun = before
            if why:
                self._outlet.do(self._feed.refuse(why, time.monotonic_ns()))

    def _rows(self, form: Form, rows: Rows, first: int, end: int) -> None:
        values, now_ns = rows.values[first:end], time.monotonic_ns()
        if rows.times_ns is not None:
            times = rows.times_ns[first:end]
            if self._offset_ns is None:
                self._offset_ns = 0 if int(times[0]) >= EARLIEST_MOMENT_NS else time.time_ns() - int(times[0])
            self._outlet.do(self._feed.rows(form, values, times + self._offset_ns, now_ns))
        elif self._regular:
            self._outlet.do(self._feed.update(form, values, None, now_ns))
        else:
            arrived = np.full(len(values), time.time_ns(), dtype=np.int64)
            self._outlet.do(self._feed.update(form, values, int(arrived[0]), now_ns, times_ns=arrived))

    def _save(self, *, force: bool) -> None:
        """Writes down where reading goes on: behind the last complete line."""
        if self._state_path is None or self._open is None:
            return
        if not force and time.monotonic() - self._saved_at < SAVE_EVERY:
            return
        self._saved_at = time.monotonic()
        position = self._tail.position
        length = min(TRACE_BYTES, position)
        trace = os.pread(self._open.descriptor, length, position - length)
        state = {"path": self._path, "position": position, "trace": trace.hex(), "header": self._tail.header}
        if state == self._saved:
            return
        write_state(self._state_path, state)
        self._saved = state


def write_state(path: str, state: dict[str, Any]) -> None:
    """Replaces a state in one step, so that a crash leaves the old or the new one."""
    beside = f"{path}.new"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def _first_line(head: bytes) -> str | None:
    """Returns the first line that is no comment."""
    for raw in head.split(b"\n")[:-1]:
        line = raw.decode(errors="replace").split("#", 1)[0].strip()
        if line:
            return line
    return None
