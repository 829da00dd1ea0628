"""Reading streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from tallycast import _core, _open_handles
from tallycast._account import Account, accounts_of
from tallycast._core import Block
from tallycast._errors import Closed, ConfigError, of_arguments


class Subscriber(_core.Subscriber):
    """A reader of every stream that matches its patterns, also of those that come later.

    ``timeout`` ends an iteration after this many seconds without a block; the default is to wait forever. With ``newest`` the
    reader gets the newest block of each stream and skips those before it. With ``until_end`` an iteration ends
    2 s after all streams that were read have ended; a silent stream counts as ended after 60 s, and a
    warning reports it. ``reader`` is the name of the account. ``deadline`` is the age in seconds from
    which samples are of no use: relays of the stream serve it, and what is older when it comes is lost.
    ``sources`` are addresses to receive at without waiting for announcements. With ``views`` large blocks
    (4 KiB and more) are not copied: their arrays, read-only, are in the ring, where
    the publisher overwrites them sooner or later; check ``block.valid()`` after use. ``spin`` is the
    number of seconds that a wait polls on a processor before it sleeps, if all streams come by shared memory:
    the least delay. A stream that begins after the subscriber is read from its first sample on; with ``start="now"`` from
    the point where it is found; the default is that of the bus (``start=beginning``). ``bus`` as for :class:`Publisher`.

    >>> with Subscriber("doc/none", timeout=0.0, bus="shm://doc") as sub:
    ...     for block in sub:
    ...         print(block.array.mean(axis=0), block.first_index, block.gaps)
    """

    _left: npt.NDArray[Any] | None
    _left_times: npt.NDArray[np.int64]
    _pool: ThreadPoolExecutor | None
    _pending: asyncio.Future[Block | None] | None
    _last: list[Account]
    _timeout: float | None

    def __new__(
        cls,
        *patterns: str,
        timeout: float | None = None,
        newest: bool = False,
        until_end: bool = False,
        reader: str | None = None,
        deadline: float | None = None,
        sources: Iterable[str] = (),
        max_sample_bytes: int | None = None,
        views: bool = False,
        spin: float = 0.0,
        start: str | None = None,
        bus: str | None = None,
    ) -> Subscriber:
        """Joins the streams."""
        with of_arguments():
            self = super().__new__(
                cls,
                list(patterns),
                timeout=timeout,
                newest=newest,
                until_end=until_end,
                reader=reader,
                deadline=deadline,
                sources=list(sources),
                max_sample_bytes=max_sample_bytes,
                views=views,
                spin=spin,
                start=start,
                bus=bus,
            )
        self._left, self._pool, self._pending, self._last = None, None, None, []
        self._timeout = timeout
        _open_handles.opened(self)
        return self

    def on_block(self, function: Callable[[Block], object]) -> Listener:
        """Calls ``function`` with every block, on a thread, until the subscriber or the listener is closed.

        An exception of the function ends the listener; :meth:`Listener.close` raises it.
        """
        return Listener(self, function)

    @of_arguments()
    def pull_chunk(
        self, timeout: float = 0.0, max_samples: int = 1024
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """Returns received samples and their times, like the call of the same name in LSL.

        Waits up to ``timeout`` seconds for the first. Shape: ``[samples, *sample_shape]`` and ``[samples]``, seconds since 1970
        UTC; both empty if none arrived. For subscribers of one stream.
        """
        arrays: list[npt.NDArray[Any]] = []
        stamps: list[npt.NDArray[np.int64]] = []
        count = 0
        while count < max_samples:
            if self._left is None:
                block = self.read(0.0 if arrays else timeout)
                if block is None:
                    break
                self._check_only(block.stream)
                self._left, self._left_times = block.array, block.times
            take = min(max_samples - count, len(self._left))
            arrays.append(self._left[:take])
            stamps.append(self._left_times[:take])
            count += take
            rest = self._left[take:]
            self._left, self._left_times = (rest if len(rest) else None), self._left_times[take:]
        if not arrays:
            return np.empty((0, 0)), np.empty(0)
        seconds: npt.NDArray[np.float64] = np.concatenate(stamps).astype(np.float64) * 1e-9
        return np.concatenate(arrays), seconds

    _only: str | None = None

    def _check_only(self, stream: str) -> None:
        if self._only not in (None, stream):
            raise ConfigError(f"pull_chunk is for one stream, and there are {self._only} and {stream}\nuse `for block in sub`")
        self._only = stream

    def accounts(self) -> list[Account]:
        """Returns the current accounts of all epochs of this reader, ended and open ones."""
        return accounts_of(self._accounts())

    def close(self) -> list[Account]:
        """Leaves all streams; returns every account, the ended ones and those cut now; the same again when called again.

        If losses wait for evidence, it waits for the publisher's next tally, two seconds at most.
        """
        text = self._close()
        _open_handles.closed(self)
        if self._pool is not None:
            self._pool.shutdown(wait=False)
        if text is not None:
            self._last = accounts_of(text)
        return self._last

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Subscriber:
        return self

    async def __anext__(self) -> Block:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="tallycast-read")
        if self._pending is None:
            self._pending = asyncio.get_running_loop().run_in_executor(self._pool, self._read_or_end)
        # Cancelling does not lose a block: the next call gets it.
        block = await asyncio.shield(self._pending)
        self._pending = None
        if block is None:
            raise StopAsyncIteration
        return block

    def _read_or_end(self) -> Block | None:
        try:
            return self.read(self._timeout)
        except Closed:
            return None

    async def __aenter__(self) -> Subscriber:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def __repr__(self) -> str:
        return "<Subscriber, closed>" if self.closed else f"<Subscriber to {', '.join(self.patterns)}>"


class Listener:
    """A thread that calls a function with every block; made by :meth:`Subscriber.on_block`."""

    def __init__(self, subscriber: Subscriber, function: Callable[[Block], object]) -> None:
        self._subscriber, self._function = subscriber, function
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tallycast-listener", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                block = self._subscriber.read(0.1)
                if block is not None:
                    self._function(block)
        except Closed:
            pass
        except BaseException as error:  # noqa: BLE001 - any exception is raised by close
            self._error = error

    def close(self) -> None:
        """Ends the thread when its function has returned; raises what the function raised."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
