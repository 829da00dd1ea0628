"""A CSV file that grows as a stream: `_core.CsvFollower` reads it (`crates/app/source/src/follow.rs`), `FileStream` publishes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tallycast import _core

from ._feed import Form
from ._feed_publisher import FeedPublisher
from ._file_stream import FileStream, Place
from ._payload import DTYPES

#: The state is written no more often than this. Units: seconds.
SAVE_EVERY = 1.0


@dataclass(frozen=True)
class TableOptions:
    """Options of a table."""

    dtype: str = "f8"
    #: Name of the time column; "none": there is none; None: the one that looks like a time.
    time: str | None = None
    time_unit: str | None = None
    #: Time zone of local times; None: the host's.
    time_zone: str | None = None
    #: Number of lines at the beginning that are passed over.
    skip: int = 0
    columns: Sequence[str] = ()
    unit: str = ""
    allow_nan: bool = False


class CsvFollower:
    """One CSV file as one stream."""

    def __init__(self, place: Place, publisher: FeedPublisher, options: TableOptions, *, regular: bool) -> None:
        self._path = place.path
        self._stream = FileStream(place, publisher, regular=regular)
        self._dtype = DTYPES[options.dtype]
        self._follower = _core.CsvFollower(
            place.path,
            dtype=options.dtype,
            time=options.time,
            time_unit=options.time_unit,
            time_zone=options.time_zone,
            skip=options.skip,
            columns=list(options.columns),
            unit=options.unit,
            allow_nan=options.allow_nan,
            begin=self._mark() if place.begin == "resume" else place.begin,
        )
        self._saved_at = 0.0

    def turn(self) -> bool:
        """Reads the available data; returns whether there were any."""
        moved, news = self._follower.read()
        self._take(news)
        if time.monotonic() - self._saved_at >= SAVE_EVERY:
            self._save()
        return moved

    def finish(self) -> None:
        """Reads the rest, part by part: it may be larger than memory."""
        moved = True
        while moved:
            moved, news = self._follower.read_rest()
            self._take(news)
        self._save()

    def close(self) -> dict[str, Any]:
        """Ends; returns the account."""
        return {
            **self._stream.close(),
            "rotations": self._follower.rotations,
            "truncations": self._follower.truncations,
            "position": self._follower.position,
            "partial_line_bytes": self._follower.partial_bytes,
        }

    def _take(self, news: list[tuple[str, Any]]) -> None:
        for kind, told in news:
            match kind:
                case "decided":
                    self._stream.say("decided", told)
                case "rows":
                    self._rows(*told)
                case "refused":
                    self._stream.refuse(told)
                case "away":
                    self._stream.away(told)
                case "back" if self._stream.has_begun:
                    self._stream.back()

    def _rows(self, channels: list[tuple[str, str]], elements: Any, times_ns: Any) -> None:
        form = Form(tuple(channels), self._dtype, (), (("file", self._path),))
        values = elements.view(self._dtype)
        self._stream.rows(form, values if len(channels) == 1 else values.reshape(-1, len(channels)), times_ns)

    def _mark(self) -> str | tuple[int, bytes, str | None]:
        """Returns where a bridge before us ended; the beginning if none did."""
        if (state := self._stream.state()) is None:
            return "beginning"
        try:
            position, trace, header = int(state["position"]), bytes.fromhex(state["trace"]), state["header"]
            if position < 0 or not isinstance(header, (str, type(None))):
                raise ValueError("invalid position or header")
            return position, trace, header
        except (ValueError, KeyError, TypeError) as error:
            raise self._stream.bad_state(error) from None

    def _save(self) -> None:
        """Saves the position at which reading continues: behind the last complete line."""
        self._saved_at = time.monotonic()
        if self._stream.keeps_state and (mark := self._follower.mark()) is not None:
            position, trace, header = mark
            self._stream.save({"path": self._path, "position": position, "trace": trace.hex(), "header": header})
