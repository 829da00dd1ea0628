"""What all bridges share as commands: the common options, settings in TOML, what is printed, the order at the end.

Every event is one line: in words on standard error, or with ``--json`` one object on standard output. SIGINT and SIGTERM end a
bridge in order; a second one ends it at once.
"""

from __future__ import annotations

import argparse
import importlib
import json
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import FrameType, ModuleType
from typing import Any, Generic, TypeVar

import tallycast as tc

T = TypeVar("T")

#: Events of peers that may wait for us; what comes beyond is counted and told as a hole.
MAX_WAITING_EVENTS = 65_536

#: Packages whose modules are called otherwise.
PACKAGES = {"paho": "paho-mqtt"}

SI = {"k": 10**3, "M": 10**6, "G": 10**9}


def rate(text: str | int | float) -> Fraction:
    """Reads samples per second: ``360``, ``48k``, ``2.5M``, ``1000/3``."""
    try:
        words = str(text).strip()
        factor = SI.get(words[-1:], 1)
        value = Fraction(words[:-1] if factor != 1 else words) * factor
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(
            f"`{text}` is no rate\nwrite samples per second: 360, 48k, 2.5M or 1000/3"
        ) from None
    if value <= 0:
        raise argparse.ArgumentTypeError(f"a rate of {text} is not above 0")
    return value


def pair(text: str) -> tuple[str, str]:
    """Reads ``LEFT=RIGHT``; the last equals sign divides."""
    left, sign, right = text.rpartition("=")
    if not (left and sign and right):
        raise argparse.ArgumentTypeError(f"`{text}` is not of the form NAME=NAME")
    return left, right


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
        "--config", metavar="FILE", help="settings in TOML; what the command line says is added to them"
    )
    parser.add_argument(
        "--bus", metavar="URL", help="network settings: udp://GROUPS:PORT?iface=eth1 or shm://NAME [env: TALLYCAST_BUS]"
    )
    parser.add_argument("--station", metavar="NAME", help="name of this station; the host's name by default")
    parser.add_argument(
        "--json", action="store_true", help="print every event and the accounts as JSON, one object a line"
    )
    return parser


def settings(path: str | None, known: Mapping[str, frozenset[str]]) -> dict[str, list[dict[str, Any]]]:
    """Reads a TOML file of tables ``[[in]]``, ``[[out]]`` …; ``known`` names the keys of each.

    # Errors
    `ConfigError` for a file that cannot be read, and for tables and keys that nobody knows.
    """
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            read = _toml().load(file)
    except OSError as error:
        raise tc.ConfigError(
            f"{path} cannot be read: {error.strerror}\nname the file of the bridge's settings"
        ) from error
    except ValueError as error:
        raise tc.ConfigError(f"{path} is no TOML: {error}") from error
    for table, entries in read.items():
        if table not in known or not isinstance(entries, list):
            tables = ", ".join(f"[[{name}]]" for name in known)
            raise tc.ConfigError(f"{path}: `{table}` is not known here\nthis bridge has {tables}")
        for entry in entries:
            strange = sorted(set(entry) - known[table])
            if strange:
                keys = ", ".join(sorted(known[table]))
                raise tc.ConfigError(f"{path}: `{strange[0]}` in [[{table}]] is not known\nkeys: {keys}")
    return dict(read)


def needed(module: str, extra: str) -> ModuleType:
    """Imports a package that is an optional extra of ours."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise tc.MissingPackage.of(PACKAGES.get(module.split(".")[0], module), extra) from error


def _toml() -> ModuleType:
    # Python 3.10 has no tomllib; its forerunner has the same functions.
    try:
        return importlib.import_module("tomllib")
    except ImportError:
        return needed("tomli", "epics")


class Reporter:
    """Prints events, from any thread."""

    def __init__(self, bridge: str, *, as_json: bool) -> None:
        self._bridge = bridge
        self._as_json = as_json
        self._lock = threading.Lock()

    def say(self, event: str, text: str, **where: Any) -> None:
        """Prints one event; ``where`` are its fields, such as stream and peer."""
        with self._lock:
            if self._as_json:
                print(json.dumps({"event": event, "bridge": self._bridge, **where, "text": text}), flush=True)
            else:
                place = " ".join(str(value) for value in where.values())
                print(
                    f"{self._bridge}: {place}: {text}" if place else f"{self._bridge}: {text}",
                    file=sys.stderr,
                    flush=True,
                )

    def account(self, account: Mapping[str, Any]) -> None:
        """Prints what became of everything on one way."""
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
    """What peers tell from their threads, for one thread that waits; bounded.

    An event for which there is no room is dropped and counted, and the next event of the same sender brings the count.
    """

    def __init__(self, bound: int = MAX_WAITING_EVENTS) -> None:
        self._queue: queue.SimpleQueue[tuple[int, int, T] | None] = queue.SimpleQueue()
        self._bound = bound
        self._lock = threading.Lock()
        self._dropped: dict[int, int] = {}

    def put(self, sender: int, event: T) -> None:
        """Hands over an event; ``sender`` is any number that tells senders apart."""
        with self._lock:
            if self._queue.qsize() >= self._bound:
                self._dropped[sender] = self._dropped.get(sender, 0) + 1
                return
            self._queue.put((sender, self._dropped.pop(sender, 0), event))

    def stop(self) -> None:
        """Ends the iteration after what waits; may be called by a signal handler."""
        # SimpleQueue.put is reentrant, unlike everything that takes a lock.
        self._queue.put(None)

    def get(self, timeout: float) -> tuple[int, int, T] | None | bool:
        """Returns sender, dropped events before, event; None at the end; False when nothing came in time."""
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            return False


def on_end(stop: Callable[[], None]) -> None:
    """Calls ``stop`` at the first SIGINT or SIGTERM, and lets the second end the process at once."""

    def handler(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


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
