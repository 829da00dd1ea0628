"""Common parts of the bridges' commands: options, output, the inbox for peers, the order at the end.

Every event is one line: text on standard error, or with ``--json`` one object on standard output. SIGINT, SIGTERM and
the end of ``--duration`` end a bridge in order; a second signal ends it at once.
"""

from __future__ import annotations

import argparse
import importlib
import json
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any, Generic, TypeVar

import tallycast as tc
from tallycast._duration import nanoseconds

T = TypeVar("T")

#: Maximum number of waiting events of peers; further ones are dropped, counted, and published as a hole.
MAX_WAITING_EVENTS = 65_536

#: Packages whose modules are called otherwise.
PACKAGES = {"paho": "paho-mqtt"}


def arguments(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Returns a parser with the options that all bridges have."""
    parser = argparse.ArgumentParser(
        prog=f"tallycast bridge {name}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config", metavar="FILE", help="settings file in TOML; entries of the command line are added to it"
    )
    parser.add_argument(
        "--bus", metavar="URL", help="network settings: udp://GROUPS:PORT?iface=eth1 or shm://NAME [env: TALLYCAST_BUS]"
    )
    parser.add_argument(
        "-t", "--duration", type=_duration, metavar="DURATION", help="end after this time, such as 30s [default: never]"
    )
    parser.add_argument("--station", metavar="NAME", help="name of this station [default: the host's name]")
    parser.add_argument(
        "-J", "--json", action="store_true", help="print every event and the accounts as JSON, one object per line"
    )
    return parser


def _duration(text: str) -> float:
    """Returns a duration in seconds."""
    try:
        return nanoseconds(text) / 1e9
    except tc.ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def needed(module: str, extra: str) -> ModuleType:
    """Imports a package that is an optional extra of ours."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise tc.MissingPackage.of(PACKAGES.get(module.split(".")[0], module), extra) from error


class Reporter:
    """Prints events, from any thread."""

    def __init__(self, bridge: str, *, as_json: bool) -> None:
        self._bridge = bridge
        self._as_json = as_json
        self._lock = threading.Lock()

    def say(self, event: str, text: str, **where: Any) -> None:
        """Prints one event; ``where`` are its fields, such as stream and peer.

        Texts of peers are in it: on a terminal their control characters are shown, and do nothing.
        """
        with self._lock:
            if self._as_json:
                print(json.dumps({"event": event, "bridge": self._bridge, **where, "text": text}), flush=True)
            else:
                place = " ".join(str(value) for value in where.values())
                print(
                    _visible(f"{self._bridge}: {place}: {text}" if place else f"{self._bridge}: {text}"),
                    file=sys.stderr,
                    flush=True,
                )

    def account(self, account: Mapping[str, Any]) -> None:
        """Prints the totals of one direction."""
        with self._lock:
            if self._as_json:
                print(json.dumps({"event": "bridged", "bridge": self._bridge, **account}), flush=True)
            else:
                print("\n".join(_in_words(account)), file=sys.stderr, flush=True)

    def reader_account(self, account: Mapping[str, Any]) -> None:
        """Prints a reader's account as `tallycast sub` does."""
        with self._lock:
            if self._as_json:
                print(json.dumps({"event": "account", **account}), flush=True)


def _visible(text: str) -> str:
    """Returns a text with its control characters written out."""
    return "".join(it if it.isprintable() or it == "\n" else it.encode("unicode_escape").decode() for it in text)


def _in_words(account: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{account.get('peer')} → {account.get('stream')}"
        if account.get("way") == "in"
        else (f"{account.get('stream')} → {account.get('peer')}")
    )
    for key, value in account.items():
        if key in {"peer", "stream", "way", "outage_list"} or value in (0, {}, [], None):
            continue
        words = ", ".join(f"{name} {count}" for name, count in value.items()) if isinstance(value, dict) else value
        yield f"    {key.replace('_', ' ')}: {words}"


class Inbox(Generic[T]):
    """Events from the threads of peers, for one thread that waits; bounded.

    An event for which there is no room is dropped and counted, and the next event of the same sender brings the count.
    """

    def __init__(self, bound: int = MAX_WAITING_EVENTS) -> None:
        self._queue: queue.SimpleQueue[tuple[int, int, T] | None] = queue.SimpleQueue()
        self._bound = bound
        self._lock = threading.Lock()
        self._dropped: dict[int, int] = {}

    def put(self, sender: int, event: T) -> None:
        """Adds an event; ``sender`` is any number that identifies the sender."""
        with self._lock:
            if self._queue.qsize() >= self._bound:
                self._dropped[sender] = self._dropped.get(sender, 0) + 1
                return
            self._queue.put((sender, self._dropped.pop(sender, 0), event))

    def stop(self) -> None:
        """Ends the iteration after what waits; may be called by a signal handler."""
        # SimpleQueue.put is reentrant, unlike everything that takes a lock.
        self._queue.put(None)

    def hand_on(self, take: Callable[[int, int, T], None]) -> None:
        """Hands every event to ``take``, with its sender and the count of those dropped before it, until `stop`."""
        while (waiting := self.get(1.0)) is not None:
            if isinstance(waiting, tuple):
                take(*waiting)

    def hand_on_rest(self, take: Callable[[int, int, T], None]) -> None:
        """Passes on the waiting events: everything that arrived before the end is in the account."""
        while (waiting := self.get(0)) is not False:
            if isinstance(waiting, tuple):
                take(*waiting)

    def get(self, timeout: float) -> tuple[int, int, T] | None | bool:
        """Returns sender, dropped events before, event; None at the end; False when nothing came in time."""
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            return False


class Stopping:
    """A request to stop, polled by a thread.

    A signal handler may set it at any time. With `threading.Event` it would wait forever for a lock that the
    interrupted thread holds (`test_a_signal_may_stop_what_waits_at_any_moment`).
    """

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Requests the stop."""
        self._is_set = True

    def is_set(self) -> bool:
        """Returns whether it was requested."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Sleeps unless it was requested, and returns whether it was."""
        if not self._is_set:
            time.sleep(seconds)
        return self._is_set


def on_end(stop: Callable[[], None], duration: float | None = None) -> None:
    """Calls ``stop`` at the first SIGINT or SIGTERM, or after this many seconds.

    A second signal ends the process at once.
    """

    def handler(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
    if duration is not None:
        timer = threading.Timer(min(duration, threading.TIMEOUT_MAX), stop)
        timer.daemon = True
        timer.start()


class Direction:
    """A part of a bridge with an orderly end: all inputs, or all outputs."""

    def finish(self) -> None:
        """Lets go of the peer, and takes what still waits; may raise."""

    def accounts(self) -> list[dict[str, Any]]:
        """Ends the streams; returns the totals."""
        raise NotImplementedError

    def readers(self) -> Sequence[Mapping[str, Any]]:
        """Returns the accounts of the readers of the outputs."""
        return ()

    def failure(self) -> BaseException | None:
        """Returns the error that ended a thread early."""
        return None


def conclude(work: Callable[[], None], directions: Sequence[Direction], reporter: Reporter) -> int:
    """Works until the end, or until something fails; then ends every direction in turn, and prints the totals.

    Published streams get their final tallies and every part its account in any case; then the first error is raised.
    Returns the exit code: 1 where an account does not add up.
    """
    failures: list[BaseException] = []
    for step in [work, *(direction.finish for direction in directions)]:
        try:
            step()
        except tc.Error as error:
            failures.append(error)
    accounts = [account for direction in directions for account in direction.accounts()]
    for account in accounts:
        reporter.account(account)
    for direction in directions:
        for reader in direction.readers():
            reporter.reader_account(reader)
        if (failed := direction.failure()) is not None:
            failures.append(failed)
    if failures:
        raise failures[0]
    return 0 if all(it["balanced"] for it in accounts) else 1


def command(name: str, run: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Runs a bridge; errors become a message and exit code 2."""
    try:
        return run(sys.argv[1:] if argv is None else argv)
    except argparse.ArgumentTypeError as error:
        message = str(error)
    except tc.Error as error:
        message = str(error)
    print(f"error: {message}", file=sys.stderr)
    return 2
