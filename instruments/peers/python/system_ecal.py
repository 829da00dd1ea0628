"""eCAL with its Python API, `ecal.nanobind_core`, and its shared-memory layer alone.

As eCAL comes (`ecal`), a sender overwrites what its reader has not taken and nobody is told; here the numbers that eCAL gives
its messages tell. `ecal-ack` waits for the reader after every message, which is eCAL's own way of losing none. Readers are
called in a thread of eCAL's; the API has no other way to read. It sends `bytes` only: where rates are measured they are made
once, so that eCAL is spared the copy that an array would take.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import ecal.nanobind_core as ecal
from case import Case
from place import PATIENCE, Place, Progress
from systems import Account

# Units: milliseconds.
ACKNOWLEDGE_MS = 1_000
REGISTRATION_MS = 100
# Silence after which missing messages count as lost. Units: seconds.
SILENCE = 0.5


def _begin(place: Place) -> None:
    """Starts eCAL for this host alone: registration over 127.255.255.255, data over shared memory, no UDP logging."""
    configuration = ecal.get_configuration()
    configuration.registration.registration_refresh = REGISTRATION_MS
    configuration.logging.provider.udp.enable = False
    configuration.logging.provider.console.enable = False
    configuration.subscriber.layer.udp.enable = False
    if not ecal.initialize(configuration, place.name):
        raise RuntimeError("eCAL cannot be initialised")
    if ecal.config.is_network_enabled():
        raise RuntimeError("eCAL would speak to the network: its own configuration file says so")


class Sender:
    """Sends blocks."""

    def __init__(self, case: Case, place: Place, progress: Progress) -> None:
        _begin(place)
        configuration = ecal.get_publisher_configuration()
        configuration.layer.udp.enable = False
        configuration.layer.tcp.enable = False
        configuration.layer.shm.acknowledge_timeout_ms = ACKNOWLEDGE_MS if case.system == "ecal-ack" else 0
        self._publisher = ecal.Publisher(place.name, ecal.DataTypeInformation(), configuration)
        self._payload = None if case.message_bytes else case.block().tobytes()
        self._samples = case.samples or 1
        self.sent = 0

    def send(self, block: npt.NDArray[Any]) -> None:
        """Sends a block."""
        self._publisher.send(self._payload or block.tobytes())
        self.sent += self._samples

    def finish(self) -> None:
        """Does nothing: eCAL cannot mark the end of a topic, so the bench informs the reader."""

    def close(self) -> None:
        """Shuts eCAL down in this process."""
        del self._publisher
        ecal.finalize()


class Reader:
    """Receives messages by callback."""

    def __init__(self, case: Case, place: Place) -> None:
        _begin(place)
        self._subscriber = ecal.Subscriber(place.name, ecal.DataTypeInformation())
        self._samples = case.samples or 1
        self._dtype = np.uint64 if case.message_bytes else np.float32

    def read(self, take: Callable[[npt.NDArray[Any], int], None]) -> Account:
        """Passes on every message until the last one sent has arrived, or none arrives any more."""
        count = missed = last = first = 0
        samples, dtype = self._samples, self._dtype
        failed: list[BaseException] = []

        def on_message(_topic: object, _type: object, data: Any) -> None:
            nonlocal count, missed, last, first
            clock = data.send_clock
            if count:
                missed += clock - last - 1
            else:
                first = clock
            count, last = count + 1, clock
            try:
                take(np.frombuffer(data.buffer, dtype), count * samples)
            except BaseException as error:  # eCAL would only print it.
                failed.append(error)

        self._subscriber.set_receive_callback(on_message)
        told: list[int] = []
        waiting = threading.Thread(target=lambda: told.append(int(sys.stdin.readline()) // samples))
        waiting.start()
        waiting.join()
        seen, since, deadline = last, time.monotonic(), time.monotonic() + PATIENCE
        while last < told[0] and time.monotonic() - since < SILENCE and time.monotonic() < deadline:
            time.sleep(0.001)
            if last != seen:
                seen, since = last, time.monotonic()
        self._subscriber.remove_receive_callback()
        del self._subscriber
        ecal.finalize()
        if failed:
            raise failed[0]
        lost = missed + told[0] - last
        sent = told[0] - first + 1
        return Account(sent * samples, count * samples, {"silently": lost * samples} if lost else {})
