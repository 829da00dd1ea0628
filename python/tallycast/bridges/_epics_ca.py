"""Process variables by Channel Access: an event loop on its own thread, which puts updates into an inbox.

libca resubscribes automatically after an IOC has come back, but with the previous type. So a subscription here lasts as
long as a connection, and every connection begins with a query of the PV's type.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from ._epics_update import Meta, Reading, Unreadable
from ._run import needed

#: Time after which an unreachable PV is reported. Units: seconds.
PATIENCE = 5.0

#: Types of Channel Access, and their dtypes.
TYPES: dict[int, tuple[str, np.dtype[Any] | None]] = {
    0: ("string", None),
    1: ("short", np.dtype("<i2")),
    2: ("float", np.dtype("<f4")),
    3: ("enum", np.dtype("<u2")),
    4: ("char", np.dtype("u1")),
    5: ("long", np.dtype("<i4")),
    6: ("double", np.dtype("<f8")),
}
ENUM = 3

#: Reason why a PV is unavailable.
Away = str
Event = Union[Meta, Reading, Unreadable, Away]


class ChannelAccess:
    """Follows PVs, and writes to some."""

    def __init__(self, heard: Callable[[int, Event], None]) -> None:
        self._aioca = needed("aioca", "epics")
        self._heard = heard
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Future[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tallycast-ca", daemon=True)
        self._thread.start()

    def follow(self, sender: int, pv: str) -> None:
        """Hears of a PV from now on."""
        self._loop.call_soon_threadsafe(self._start, sender, pv)

    def put(self, pv: str, value: Any, done: Callable[[str | None], None]) -> None:
        """Writes a value; ``done`` gets None or why not, in another thread."""
        asyncio.run_coroutine_threadsafe(self._put(pv, value, done), self._loop)

    def get(self, pv: str) -> Any:
        """Returns the present value of a PV, or None if there is no answer."""
        return asyncio.run_coroutine_threadsafe(self._get(pv), self._loop).result()

    def close(self) -> None:
        """Ends everything."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _start(self, sender: int, pv: str) -> None:
        task = asyncio.ensure_future(self._follow(sender, pv))
        self._tasks.add(task)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._aioca.purge_channel_caches()

    async def _put(self, pv: str, value: Any, done: Callable[[str | None], None]) -> None:
        answer = await self._aioca.caput(pv, value, wait=True, timeout=PATIENCE, throw=False)
        done(None if answer.ok else str(answer))

    async def _get(self, pv: str) -> Any:
        value = await self._aioca.caget(pv, timeout=PATIENCE, throw=False)
        return value if value.ok else None

    async def _follow(self, sender: int, pv: str) -> None:
        while True:
            info = await self._connected(sender, pv)
            try:
                await self._while_connected(sender, pv, info)
            except self._aioca.CANothing as error:
                self._heard(sender, str(error))

    async def _connected(self, sender: int, pv: str) -> Any:
        said = False
        while True:
            info = await self._aioca.cainfo(pv, timeout=PATIENCE, throw=False)
            if info.ok:
                return info
            if not said:
                self._heard(
                    sender, f"no answer for {pv}: waiting\ncheck EPICS_CA_ADDR_LIST, and that its IOC is running"
                )
                said = True

    async def _while_connected(self, sender: int, pv: str, info: Any) -> None:
        aioca = self._aioca
        kind, dtype = TYPES.get(info.datatype, (f"type {info.datatype}", None))
        length = None if info.count == 1 else int(info.count)
        gone = asyncio.Event()
        known = False
        early: list[Any] = []

        def lost(value: Any) -> None:
            if not gone.is_set():
                gone.set()
                self._heard(sender, f"disconnected: {value}")

        def meta(value: Any) -> None:
            nonlocal known
            if not value.ok:
                return lost(value)
            states = tuple(str(it) for it in getattr(value, "enums", ()) or ())
            self._heard(sender, Meta(dtype, length, str(getattr(value, "units", "") or ""), states, kind))
            known = True
            for each in early:
                reading(each)
            early.clear()

        def reading(value: Any) -> None:
            if not value.ok:
                return lost(value)
            if not known:
                # Updates of a PV without metadata cannot be interpreted; the newest few are kept.
                early.append(value)
                del early[:-1000]
                return
            try:
                seconds, nanoseconds = value.raw_stamp
                t_ns = int(seconds) * 1_000_000_000 + int(nanoseconds)
                told: Event = Reading(np.array(value), t_ns, int(value.severity))
            except (AttributeError, TypeError, ValueError, OverflowError) as error:
                told = Unreadable(f"an update cannot be read: {type(error).__name__}: {error}")
            self._heard(sender, told)

        if dtype is None:
            self._heard(sender, Meta(None, length, kind=kind))
            known = True
        native = None if dtype is None or info.datatype == ENUM else info.datatype
        follow: Sequence[Any] = [
            *(
                [aioca.camonitor(pv, meta, events=aioca.DBE_PROPERTY, format=aioca.FORMAT_CTRL, notify_disconnect=True)]
                if dtype is not None
                else []
            ),
            aioca.camonitor(
                pv, reading, datatype=native, format=aioca.FORMAT_TIME, all_updates=True, notify_disconnect=True
            ),
        ]
        try:
            await gone.wait()
        finally:
            for each in follow:
                each.close()
