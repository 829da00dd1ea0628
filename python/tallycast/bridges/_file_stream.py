"""A growing file as a stream: publication of its rows, and the state file with the position at which reading continues.

Common part of CSV and HDF5, independent of how their rows are found.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import tallycast as tc

from ._feed import Form, Times, Values
from ._feed_publisher import FeedPublisher

#: Times from the year 2000 on are moments in UTC; smaller ones count from the beginning of the recording.
EARLIEST_MOMENT_NS = 946_684_800_000_000_000
#: Reason why reading begins at the beginning although there is a state.
OTHER_FILE = "the file is a different one: reading it from the beginning"


@dataclass(frozen=True)
class Place:
    """A file, and where in it reading begins."""

    path: str
    #: ``beginning``, ``now``, or ``resume``: at the position of the state.
    begin: str = "beginning"
    #: The file of state.
    state: str | None = None


class FileStream:
    """One stream of one file."""

    def __init__(self, place: Place, publisher: FeedPublisher, *, regular: bool) -> None:
        self._place = place
        self._publisher = publisher
        self._feed = publisher.feed
        #: Rows come at the rate of the stream.
        self._regular = regular
        #: Offset added to times that count from the start of something.
        self._offset_ns: int | None = None
        self._saved: dict[str, Any] | None = None

    @property
    def has_begun(self) -> bool:
        """True once anything was published."""
        return self._feed.form is not None

    def rows(self, form: Form, values: Values, times_ns: Times | None) -> None:
        """Publishes rows: with their own times, at the rate, or else as they arrive."""
        now_ns = time.monotonic_ns()
        if times_ns is not None:
            if self._offset_ns is None:
                self._offset_ns = 0 if int(times_ns[0]) >= EARLIEST_MOMENT_NS else time.time_ns() - int(times_ns[0])
            self._publisher.do(self._feed.rows(form, values, times_ns + self._offset_ns, now_ns))
        elif self._regular:
            self._publisher.do(self._feed.update(form, values, None, now_ns))
        else:
            arrived = np.full(len(values), time.time_ns(), dtype=np.int64)
            self._publisher.do(self._feed.update(form, values, int(arrived[0]), now_ns, times_ns=arrived))

    def refuse(self, why: str) -> None:
        """Handles an invalid row."""
        self._publisher.do(self._feed.refuse(why, time.monotonic_ns()))

    def away(self, why: str) -> None:
        """Handles a possible loss before the next row."""
        self._publisher.do(self._feed.away(why, time.time_ns()))

    def back(self) -> None:
        """Withdraws a possible loss."""
        self._publisher.do(self._feed.back(time.time_ns()))

    def say(self, event: str, text: str) -> None:
        """Prints a message."""
        self._publisher.say(event, text)

    def close(self) -> dict[str, Any]:
        """Ends the stream; returns its account."""
        return self._publisher.close(time.time_ns())

    @property
    def keeps_state(self) -> bool:
        """True if the position is saved."""
        return self._place.state is not None

    def state(self) -> dict[str, Any] | None:
        """Returns what was written down by a bridge before us; None where nothing was.

        # Errors
        `BridgeError` where it cannot be read.
        """
        assert self._place.state is not None
        try:
            with open(self._place.state, encoding="utf-8") as file:
                read: dict[str, Any] = json.load(file)
                return read
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self.bad_state(error) from None

    def bad_state(self, error: Exception) -> tc.BridgeError:
        """Returns the error for an invalid state file."""
        return tc.BridgeError(f"cannot read the state {self._place.state}: {error}\nremove it to start over")

    def save(self, state: dict[str, Any]) -> None:
        """Writes down how far we are, in one step: a crash leaves the old or the new one."""
        if self._place.state is None or state == self._saved:
            return
        beside = f"{self._place.state}.new"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self._place.state)
        self._saved = state
