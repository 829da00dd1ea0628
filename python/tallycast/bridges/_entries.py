"""Streams to be bridged: entries ``[[in]]`` and ``[[out]]`` of a settings file, and equivalent options of the command line.

An entry is a mapping from key to value, whatever its origin; its values are read here in the same way for every
bridge.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from types import ModuleType
from typing import Any, Optional, TypeVar, Union

import tallycast as tc

from ._run import needed
from ._thinner import METHODS, Thinner

Entry = dict[str, Any]
T = TypeVar("T")

SI = {"k": 10**3, "M": 10**6, "G": 10**9}
#: Nominal rate of streams with irregular samples, used for queues and budgets.
NOMINAL_RATE = "1k"
#: Outputs a second of what goes out.
OUT_RATE = "10"
#: Options of what goes out that all bridges have, by their keys.
OUT_OPTIONS = {"rate": "out_rate", "thin": "thin"}


def rate(text: Union[str, int, float, Fraction]) -> Fraction:
    """Reads samples per second: ``360``, ``48k``, ``2.5M``, ``1000/3``."""
    try:
        words = str(text).strip()
        factor = SI.get(words[-1:], 1)
        value = Fraction(words[:-1] if factor != 1 else words) * factor
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(
            f"invalid rate `{text}`\nwrite samples per second: 360, 48k, 2.5M or 1000/3"
        ) from None
    if value <= 0:
        raise argparse.ArgumentTypeError(f"invalid rate {text}: it must be above 0")
    return value


def pair(text: str) -> tuple[str, str]:
    """Reads ``LEFT=RIGHT``; the last equals sign divides."""
    left, sign, right = text.rpartition("=")
    if not (left and sign and right):
        raise argparse.ArgumentTypeError(f"`{text}` is not of the form NAME=NAME")
    return left, right


def names(text: str) -> list[str]:
    """Reads names that are divided by commas."""
    return text.split(",")


def add_pairs(parser: argparse.ArgumentParser, option: str, form: str, about: str) -> None:
    """Adds an option ``LEFT=RIGHT`` that may be given several times."""
    parser.add_argument(option, action="append", default=[], type=pair, metavar=form, help=about)


def add_rate(parser: argparse.ArgumentParser, option: str, about: str) -> None:
    """Adds an option that is a rate."""
    parser.add_argument(option, type=rate, metavar="RATE", help=about)


def add_out_options(parser: argparse.ArgumentParser, outputs: str) -> None:
    """Adds how often, and what of its samples, a channel goes out as ``outputs``."""
    add_rate(parser, "--out-rate", f"{outputs} per second; `all` samples in the file [default: {OUT_RATE}]")
    parser.add_argument("--thin", choices=sorted(METHODS), help="how samples are combined into one output [default: last]")


def settings(path: Optional[str], known: Mapping[str, Collection[str]]) -> dict[str, list[Entry]]:
    """Reads a TOML file of tables ``[[in]]``, ``[[out]]`` …; ``known`` names the keys of each.

    # Errors
    `ConfigError` for a file that cannot be read, and for unknown tables and keys.
    """
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            read = _toml().load(file)
    except OSError as error:
        raise tc.ConfigError(
            f"cannot read {path}: {error.strerror}\nname the file of the bridge's settings"
        ) from error
    except ValueError as error:
        raise tc.ConfigError(f"{path} is no TOML: {error}") from error
    for table, entries in read.items():
        if table not in known or not isinstance(entries, list):
            tables = ", ".join(f"[[{name}]]" for name in known)
            raise tc.ConfigError(f"{path}: unknown table `{table}`\nthis bridge has {tables}")
        for entry in entries:
            strange = sorted(set(entry) - set(known[table]))
            if strange:
                keys = ", ".join(sorted(known[table]))
                raise tc.ConfigError(f"{path}: unknown key `{strange[0]}` in [[{table}]]\nkeys: {keys}")
    return dict(read)


def said(args: argparse.Namespace, *options: str, **by_key: str) -> Entry:
    """Returns the values of the command line: options by their own names, and by their keys in the file."""
    values = {key: getattr(args, option) for key, option in ({it: it for it in options} | by_key).items()}
    return {key: value for key, value in values.items() if value is not None and value is not False}


def channel_of(text: str) -> Entry:
    """Reads ``STREAM[:CHANNEL]``."""
    stream, _, channel = text.partition(":")
    return {"stream": stream, **({"channel": channel} if channel else {})}


def required(table: str, entries: Iterable[Entry], *keys: str) -> None:
    """Refuses entries that lack one of the keys without which they mean nothing."""
    for entry in entries:
        for key in keys:
            if key not in entry:
                raise tc.ConfigError(f"an entry of [[{table}]] has no `{key}`: {entry}")


def something(entries: Sequence[Sequence[Entry]], hint: str) -> None:
    """Refuses to begin where there is nothing to bridge."""
    if not any(entries):
        raise tc.ConfigError(f"nothing to do\n{hint}, or a settings file with --config")


def number(entry: Entry, key: str) -> Optional[Fraction]:
    """Returns a rate of an entry; None if it has none."""
    value = entry.get(key)
    try:
        return None if value is None else rate(value)
    except argparse.ArgumentTypeError as error:
        raise tc.ConfigError(f"{key}: {error}") from error


def nominal_rate(entry: Entry) -> Fraction:
    """Returns the nominal rate of a stream."""
    return number(entry, "rate") or rate(NOMINAL_RATE)


def one_of(entry: Entry, key: str, among: Iterable[T], default: T) -> T:
    """Returns a value of an entry that is one of several."""
    value, possible = entry.get(key, default), list(among)
    for each in possible:
        if value == each:
            return each
    raise tc.ConfigError(f'invalid {key} = "{value}"\nuse one of {", ".join(map(str, possible))}')


def labels(entry: Entry) -> dict[str, str]:
    """Returns the labels of a stream."""
    return {str(key): str(value) for key, value in entry.get("labels", {}).items()}


def thinner(entry: Entry) -> Thinner:
    """Returns what makes outputs of a channel's samples."""
    is_all = entry.get("rate") == "all"
    return Thinner(
        one_of(entry, "thin", sorted(METHODS), "last"), None if is_all else number({"rate": OUT_RATE, **entry}, "rate")
    )


def _toml() -> ModuleType:
    # Python 3.10 has no tomllib; its forerunner has the same functions.
    try:
        return importlib.import_module("tomllib")
    except ImportError:
        return needed("tomli", "epics")
