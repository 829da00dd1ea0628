"""Process variables by PV Access: updates from p4p into an inbox, and PVs served by p4p itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ._epics_ca import PATIENCE, Event
from ._epics_update import Meta, Reading, Unreadable
from ._run import needed

#: Type codes of PV Access that are numbers.
TYPES: dict[str, np.dtype[Any]] = {
    "?": np.dtype("?"),
    "b": np.dtype("i1"),
    "B": np.dtype("u1"),
    "h": np.dtype("<i2"),
    "H": np.dtype("<u2"),
    "i": np.dtype("<i4"),
    "I": np.dtype("<u4"),
    "l": np.dtype("<i8"),
    "L": np.dtype("<u8"),
    "f": np.dtype("<f4"),
    "d": np.dtype("<f8"),
}

#: Maximum number of concurrent writes; a PV that does not answer occupies one of them.
WRITERS = 8

#: Updates that the server keeps for us while we are slow.
QUEUE = 1_000


class PvAccess:
    """Follows PVs, and writes to some."""

    def __init__(self, heard: Callable[[int, Event], None]) -> None:
        self._p4p = needed("p4p.client.thread", "epics")
        self._heard = heard
        self._context = self._p4p.Context("pva", nt=False)
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="tallycast-pva")
        self._subscriptions: list[Any] = []
        self._timers: list[threading.Timer] = []

    def follow(self, sender: int, pv: str) -> None:
        """Hears of a PV from now on."""
        request = f"record[queueSize={QUEUE}]field()"
        before: list[Meta] = []
        # A subscription begins with a disconnect event: it is reported only if that persists.
        nobody = f"no answer for {pv}: waiting\ncheck EPICS_PVA_ADDR_LIST, and that its server is running"
        first = threading.Timer(PATIENCE, lambda: self._heard(sender, nobody))
        first.daemon = True
        first.start()
        self._timers.append(first)
        met = False

        def heard(value: Any) -> None:
            nonlocal met
            if isinstance(value, self._p4p.Disconnected):
                before.clear()
                if met:
                    self._heard(sender, "disconnected")
                return
            met = True
            first.cancel()
            if isinstance(value, Exception):
                before.clear()
                self._heard(sender, f"{type(value).__name__}: {value}")
                return
            try:
                meta, reading = meta_of(value), reading_of(value)
            except Exception as error:  # noqa: BLE001 - a structure may be anything, and p4p ends the subscription
                self._heard(sender, Unreadable(f"the structure of an update cannot be read: {type(error).__name__}: {error}"))
                return
            if before != [meta]:
                before[:] = [meta]
                self._heard(sender, meta)
            self._heard(sender, reading)

        self._subscriptions.append(monitor(self._context, pv, heard, request, notify_disconnect=True))

    def put(self, pv: str, value: Any, done: Callable[[str | None], None]) -> None:
        """Writes a value; ``done`` gets None or why not, in another thread."""
        self._writers.submit(self._put, pv, value, done)

    def get(self, pv: str) -> Any:
        """Returns the present value of a PV, or None if there is no answer."""
        try:
            return reading_of(self._context.get(pv, timeout=PATIENCE)).value
        except Exception:  # noqa: BLE001 - p4p has errors of its own, and none of them is an answer
            return None

    def _put(self, pv: str, value: Any, done: Callable[[str | None], None]) -> None:
        try:
            self._context.put(pv, value, timeout=PATIENCE, wait=True)
        except Exception as error:
            done(f"{type(error).__name__}: {error}")
        else:
            done(None)

    def close(self) -> None:
        """Ends everything."""
        self._writers.shutdown()
        for timer in self._timers:
            timer.cancel()
        for each in self._subscriptions:
            each.close()
        self._context.close()


def monitor(
    context: Any, pv: str, heard: Callable[[Any], None], request: str, *, notify_disconnect: bool = False
) -> Any:
    """Subscribes to a PV as p4p's ``Context.monitor`` does, and loses no update.

    p4p's version drops an update, and all behind it, if it arrives before the call has returned.
    """
    p4p = needed("p4p.client.thread", "epics")
    subscription = p4p.Subscription(context, pv, heard, notify_disconnect=notify_disconnect)
    is_there = threading.Event()

    def event() -> None:
        is_there.wait()
        subscription._event()

    subscription._S = p4p.raw.Context.monitor(context, pv, event, request)
    is_there.set()
    return subscription


def meta_of(value: Any) -> Meta:
    """Returns the metadata in a PV's structure."""
    identity = str(value.getID())
    if identity.startswith("epics:nt/NTEnum"):
        states = tuple(str(it) for it in value.get("value.choices", ()))
        return Meta(np.dtype("<i4"), None, "", states, identity)
    if not identity.startswith(("epics:nt/NTScalar:", "epics:nt/NTScalarArray:")):
        return Meta(None, None, kind=identity)
    code = str(value.type().aspy("value"))
    dtype = TYPES.get(code.removeprefix("a"))
    if dtype is None:
        return Meta(None, None, kind="string")
    length = len(value["value"]) if code.startswith("a") else None
    return Meta(dtype, length, str(value.get("display.units", "") or ""), (), identity)


def reading_of(value: Any) -> Reading:
    """Returns an update's value, time and severity."""
    it = value.get("value")
    if hasattr(it, "get") and not isinstance(it, np.ndarray):
        it = it.get("index", 0)
    t_ns = int(value.get("timeStamp.secondsPastEpoch", 0)) * 1_000_000_000 + int(value.get("timeStamp.nanoseconds", 0))
    array = np.array(it) if not isinstance(it, str) else np.array([], dtype="u1")
    return Reading(array, t_ns, int(value.get("alarm.severity", 0)))
