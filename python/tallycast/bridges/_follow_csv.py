"""Follows a CSV file on disk: what is appended, what is cut off, what takes its place."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from ._csv_tail import CsvTail, Rows, TableOptions
from ._feed import Form
from ._file_stream import OTHER_FILE, FileStream, Place
from ._feed_publisher import FeedPublisher

#: So much is read at once.
PIECE_BYTES = 1 << 20
#: Number of bytes before the position that are compared, to verify that it is still the same file.
TRACE_BYTES = 256
#: The state is written no more often than this. Units: seconds.
SAVE_EVERY = 1.0


@dataclass
class _Open:
    """A file that is open."""

    descriptor: int
    inode: tuple[int, int]
    #: Number of bytes read, partial last line included.
    position: int
    #: The bytes before `position`.
    trace: bytes


class CsvFollower:
    """One CSV file as one stream."""

    def __init__(self, place: Place, publisher: FeedPublisher, options: TableOptions, *, regular: bool) -> None:
        self._path = place.path
        self._stream = FileStream(place, publisher, regular=regular)
        self._options = options
        self._tail = CsvTail(options)
        self._open: _Open | None = None
        self._begin = place.begin
        self._saved_at = 0.0
        self._said_absent = False
        self.rotations = 0
        self.truncations = 0

    def turn(self) -> bool:
        """Reads the available data; returns whether there were any."""
        if self._open is None and not self._find():
            return False
        moved = self._read()
        if not moved:
            moved = self._follow_name()
        self._save(force=False)
        return moved

    def finish(self) -> None:
        """Reads the rest."""
        while self._open is not None and self._read():
            pass
        self._save(force=True)

    def close(self) -> dict[str, Any]:
        """Ends; returns the account."""
        account = self._stream.close()
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
                self._stream.away(f"{self._path}: {error.strerror}; waiting for it")
            return False
        if self._said_absent and self._stream.has_begun:
            # The previous file was read to its end: while there was no file, nothing was written.
            self._stream.back()
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
        """Continues at the position of the state, if it is still the same file."""
        assert self._open is not None
        if (state := self._stream.state()) is None:
            return
        try:
            position, trace, header = int(state["position"]), bytes.fromhex(state["trace"]), state["header"]
        except (ValueError, KeyError, TypeError) as error:
            raise self._stream.bad_state(error) from None
        before = os.pread(self._open.descriptor, len(trace), position - len(trace)) if position >= len(trace) else b""
        if position > stat.st_size or before != trace:
            self._stream.away(OTHER_FILE)
            return
        self._go_to(position, header)

    def _read(self) -> bool:
        """Reads the next part; returns whether there was one."""
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
        """Returns whether the part that was read is still there: a truncated file may have grown again meanwhile."""
        return os.pread(it.descriptor, len(it.trace), it.position - len(it.trace)) == it.trace

    def _truncated(self, it: _Open) -> None:
        self.truncations += 1
        self._drop_partial()
        self._stream.away(f"{self._path} was truncated; the rows added before that are unknown")
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
            self._stream.refuse("the last line is incomplete at the end of the file")

    def _take(self, rows: Rows) -> None:
        columns = self._tail.columns
        assert columns is not None
        form = Form(
            tuple((name, unit) for _, name, unit in columns.channels), self._options.dtype, (), (("file", self._path),)
        )
        begun = 0
        for before, why in [*rows.refused, (len(rows.values), "")]:
            if before > begun:
                times_ns = None if rows.times_ns is None else rows.times_ns[begun:before]
                self._stream.rows(form, rows.values[begun:before], times_ns)
                begun = before
            if why:
                self._stream.refuse(why)

    def _save(self, *, force: bool) -> None:
        """Saves the position at which reading continues: behind the last complete line."""
        if not self._stream.keeps_state or self._open is None:
            return
        if not force and time.monotonic() - self._saved_at < SAVE_EVERY:
            return
        self._saved_at = time.monotonic()
        position = self._tail.position
        length = min(TRACE_BYTES, position)
        trace = os.pread(self._open.descriptor, length, position - length)
        self._stream.save(
            {"path": self._path, "position": position, "trace": trace.hex(), "header": self._tail.header}
        )


def _first_line(head: bytes) -> str | None:
    """Returns the first line that is no comment."""
    for raw in head.split(b"\n")[:-1]:
        line = raw.decode(errors="replace").split("#", 1)[0].strip()
        if line:
            return line
    return None
