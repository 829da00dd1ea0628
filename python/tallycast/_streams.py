"""List of the streams, and their accounts."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tallycast import _core, _html
from tallycast._account import Account
from tallycast._errors import of_arguments
from tallycast._schema import _NUMPY
from tallycast._subscriber import Subscriber


@dataclass(frozen=True)
class StreamInfo:
    """A stream that can be read.

    ``reach`` is the one that a reader here would use, ``shm`` or ``udp``; ``level`` is ``group`` on a bus with keys, else ``clear``.
    """

    name: str
    dtype: np.dtype[Any]
    rate: Fraction
    channels: int
    elements_per_sample: int
    station: str
    reach: str
    level: str


class Streams(_html.Listing[StreamInfo]):
    """Streams in a list, which a notebook shows as a table."""

    _head = ("stream", "channels", "dtype", "samples/s", "station", "reach", "level")

    def _row(self, it: StreamInfo) -> tuple[object, ...]:
        return it.name, it.channels, it.dtype, it.rate, it.station, it.reach, it.level


@of_arguments()
def streams(timeout: float = 1.2, bus: str | None = None) -> list[StreamInfo]:
    """Returns the streams of this host and those announced on the network within ``timeout`` seconds, by name.

    Publishers announce their streams once a second.

    >>> streams(timeout=0.0, bus="shm://doc")
    []
    """
    made = Streams()
    for row in json.loads(_core.streams(timeout, bus)):
        rate = Fraction(row["rate"]["numerator"], row["rate"]["denominator"])
        dtype = np.dtype(_NUMPY[row["dtype"]])
        made.append(
            StreamInfo(
                name=row["name"],
                dtype=dtype,
                rate=rate,
                channels=row["channels"],
                elements_per_sample=row["elements_per_sample"],
                station=row["station"],
                reach=row["reach"],
                level=row["level"],
            )
        )
    return made


@of_arguments()
def account(pattern: str, duration: float = 1.0, bus: str | None = None) -> list[Account]:
    """Reads the streams of a pattern for ``duration`` seconds, and returns their accounts.

    Observes the losses of a stream independently of its readers. A reader's own accounts are in :meth:`Subscriber.accounts`.

    >>> account("doc/none", duration=0.0, bus="shm://doc")
    []
    """
    with Subscriber(pattern, bus=bus, reader="tallycast.account") as subscriber:
        end = time.monotonic() + duration
        while (left := end - time.monotonic()) > 0:
            subscriber.read(left)
        return subscriber.close()
