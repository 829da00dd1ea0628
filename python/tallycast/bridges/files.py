"""Files that grow as streams: ``python -m tallycast.bridges.files``. CSV in `_follow_csv`, HDF5 with SWMR in `_follow_hdf5`.

For files that are complete there is ``tallycast pub --file``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Union

import tallycast as tc

from . import _entries, _run
from ._entries import Entry
from ._feed import Feed
from ._file_stream import FileStream, Place
from ._follow_csv import CsvFollower, TableOptions
from ._follow_hdf5 import Hdf5Follower
from ._feed_publisher import Declaration, FeedPublisher
from ._payload import DTYPES, TIME_UNITS

#: Options that are keys of an entry.
IN_OPTIONS = (
    *("dtype", "rate", "time", "time_unit", "time_zone", "skip", "columns", "unit"),
    *("allow_nan", "begin", "state", "wait"),
)
IN_KEYS = frozenset({"file", "stream", "channel", "labels", *IN_OPTIONS})

#: Units of a CSV file's time column: numbers, or dates and times of day, with the day or the month first in 03/04/2026.
TABLE_UNITS = (*TIME_UNITS, "min", "h", "iso", "dmy", "mdy")
#: Extensions of HDF5 files.
HDF5_SUFFIXES = (".h5", ".hdf5", ".nxs", ".hdf")
#: Interval at which idle files are checked. Units: seconds.
POLL_INTERVAL = 0.05

EXAMPLES = """\
examples:
  python -m tallycast.bridges.files run7.csv=lab/run7 --rate 100
  python -m tallycast.bridges.files log.csv=lab/log --begin now
  python -m tallycast.bridges.files scan.h5:/entry/data=lab/scan --time /entry/time --time-unit s
  python -m tallycast.bridges.files run7.csv=lab/run7 --state run7.state     continue at the last position
"""

Follower = Union[CsvFollower, Hdf5Follower]


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = _run.arguments(
        "files", "Follow growing CSV and HDF5 (SWMR) files, and publish new rows.", EXAMPLES
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=_entries.pair,
        metavar="FILE=STREAM",
        help="a CSV file, or FILE:/DATASET of an HDF5 file",
    )
    _entries.add_rate(
        parser,
        "--rate",
        "rows per second, if regular: missing rows are counted by their times; without it each row has its own time",
    )
    parser.add_argument(
        "--time",
        metavar="COLUMN",
        help="time column or dataset; `none` if one that looks like a time is a channel",
    )
    parser.add_argument(
        "--time-unit",
        choices=TABLE_UNITS,
        help="unit of the time column; iso, dmy, mdy: dates and times of day [default: from heading, name or first value]",
    )
    parser.add_argument(
        "--time-zone", metavar="ZONE", help="time zone of times without an offset [default: that of this host]"
    )
    parser.add_argument("--skip", type=int, metavar="LINES", help="lines at the beginning of a CSV file to pass over")
    parser.add_argument(
        "--columns",
        type=_entries.names,
        metavar="NAMES",
        help="columns to publish, separated by commas [default: all but the time]",
    )
    parser.add_argument("--dtype", choices=sorted(DTYPES), help="type of every element of a CSV file [default: f8]")
    parser.add_argument("--unit", help="unit of channels without one")
    parser.add_argument(
        "--allow-nan",
        action="store_true",
        help="accept NaN, infinities and empty fields; otherwise such a row is a hole",
    )
    parser.add_argument("--begin", choices=("beginning", "now"), help="where to begin [default: beginning]")
    parser.add_argument(
        "--state", metavar="FILE", help="file that stores the progress; the same command continues from there"
    )
    parser.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        help="wait until a reader on another host has reported before the first sample [default: 0.5]",
    )
    return parser.parse_args(argv)


def entries(args: argparse.Namespace) -> list[Entry]:
    """Returns the files to be followed, from file and command line."""
    read = _entries.settings(args.config, {"in": IN_KEYS})
    common = _entries.said(args, *IN_OPTIONS)
    if "state" in common and len(args.files) > 1:
        raise tc.ConfigError("--state applies to one file\nlist several files in a --config, each with its `state`")
    found = [*read.get("in", []), *({"file": file, "stream": stream, **common} for file, stream in args.files)]
    _entries.something((found,), "name files as FILE=STREAM")
    _entries.required("in", found, "file", "stream")
    return found


def follower_of(
    spec: Entry, args: argparse.Namespace, reporter: _run.Reporter, stopping: _run.Stopping
) -> Follower:
    """Returns what follows a file."""
    path, dataset = _divided(spec["file"])
    begin = _entries.one_of(spec, "begin", ("beginning", "now"), "beginning")
    state = spec.get("state")
    place = Place(path, begin if state is None else "resume", state)
    rate = _entries.number(spec, "rate")
    publisher = FeedPublisher(Feed(spec["file"], rate), _declaration(spec, args, stopping), reporter)
    time_unit = _entries.one_of(spec, "time_unit", TABLE_UNITS, "s") if "time_unit" in spec else None
    if dataset is None:
        return CsvFollower(place, publisher, _table(spec, time_unit), regular=rate is not None)
    if time_unit not in (None, *TIME_UNITS):
        raise tc.ConfigError(f"times of an HDF5 file are numbers\nset time_unit to one of {', '.join(TIME_UNITS)}")
    return Hdf5Follower(
        place,
        dataset,
        publisher,
        channel=spec.get("channel", dataset.rsplit("/", 1)[-1]),
        unit=spec.get("unit"),
        time_dataset=spec.get("time"),
        time_unit=time_unit or "s",
        regular=rate is not None,
    )


def _declaration(spec: Entry, args: argparse.Namespace, stopping: _run.Stopping) -> Declaration:
    return Declaration(
        spec["stream"],
        _entries.nominal_rate(spec),
        args.bus,
        args.station,
        on_full="block",
        linger=0.005,
        wait=float(spec.get("wait", 0.5)),
        stopping=stopping,
        own_times="rate" not in spec,
        labels=_entries.labels(spec),
    )


def _table(spec: Entry, time_unit: str | None) -> TableOptions:
    numbers = [name for name, dtype in DTYPES.items() if dtype.kind in "iuf"]
    skip = spec.get("skip", 0)
    if not isinstance(skip, int) or skip < 0:
        raise tc.ConfigError(f"invalid skip = {skip!r}\nuse a number of lines: 0, 1, 2 …")
    return TableOptions(
        dtype=_entries.one_of(spec, "dtype", numbers, "f8"),
        time=spec.get("time"),
        time_unit=time_unit,
        time_zone=spec.get("time_zone"),
        skip=skip,
        columns=spec.get("columns", ()),
        unit=spec.get("unit", ""),
        allow_nan=bool(spec.get("allow_nan", False)),
    )


def _divided(text: str) -> tuple[str, str | None]:
    """Divides ``FILE:/DATASET``; a file without a dataset is text."""
    path, sign, dataset = text.rpartition(":")
    if sign and dataset and path:
        return path, dataset
    if text.lower().endswith(HDF5_SUFFIXES):
        raise tc.ConfigError(f"{text} has many datasets\nname one: {text}:/entry/data")
    return text, None


class Incoming(_run.Direction):
    """All files that are followed."""

    def __init__(
        self, specs: Sequence[Entry], args: argparse.Namespace, reporter: _run.Reporter, stopping: _run.Stopping
    ) -> None:
        self._stopping = stopping
        self._followers = [follower_of(spec, args, reporter, stopping) for spec in specs]

    def follow(self) -> None:
        """Checks every file in turn, until it is stopped."""
        # However early the end comes, every file is opened: `finish` reads only those.
        for follower in self._followers:
            follower.turn()
        while not self._stopping.is_set():
            if not any([it.turn() for it in self._followers]):
                self._stopping.wait(POLL_INTERVAL)

    def finish(self) -> None:
        """Reads what is there to its end."""
        for follower in self._followers:
            follower.finish()

    def accounts(self) -> list[dict[str, Any]]:
        """Ends all streams."""
        return [it.close() for it in self._followers]


def run(argv: Sequence[str]) -> int:
    """Bridges until SIGINT, SIGTERM, or the end of the duration."""
    args = parse(argv)
    specs = entries(args)
    reporter = _run.Reporter("files", as_json=args.json)
    stopping = _run.Stopping()
    _run.on_end(stopping.set, args.duration)
    incoming = Incoming(specs, args, reporter, stopping)
    return _run.conclude(incoming.follow, [incoming], reporter)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command."""
    return _run.command("files", run, argv)


if __name__ == "__main__":
    sys.exit(main())
