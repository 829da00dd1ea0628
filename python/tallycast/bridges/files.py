"""Files that grow as streams: ``python -m tallycast.bridges.files``. CSV in `_follow_csv`, HDF5 with SWMR in `_follow_hdf5`.

For files that are complete there is ``tallycast pub --file``.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

import tallycast as tc

from . import _run
from ._csv_tail import TableError, TableOptions
from ._feed import Feed
from ._follow_csv import CsvFollower
from ._follow_hdf5 import Hdf5Follower
from ._outlet import Declaration, Outlet
from ._payload import DTYPES, TIME_UNITS

IN_KEYS = frozenset(
    {
        "file",
        "stream",
        "dtype",
        "rate",
        "time",
        "time_unit",
        "columns",
        "channel",
        "unit",
        "allow_nan",
        "begin",
        "state",
        "wait",
        "labels",
    }
)

#: What HDF5 files are called.
HDF5_SUFFIXES = (".h5", ".hdf5", ".nxs", ".hdf")
#: How often files that stand still are looked at. Units: seconds.
LOOK = 0.05
#: How many samples are to be expected where nobody says.
NOMINAL_RATE = "1k"

EXAMPLES = """\
examples:
  python -m tallycast.bridges.files run7.csv=lab/run7 --rate 100
  python -m tallycast.bridges.files log.csv=lab/log --begin now
  python -m tallycast.bridges.files scan.h5:/entry/data=lab/scan --time /entry/time --time-unit s
  python -m tallycast.bridges.files run7.csv=lab/run7 --state run7.state     go on where it ended
"""

Follower = Union[CsvFollower, Hdf5Follower]


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = _run.arguments(
        "files", "Follow CSV and HDF5 (SWMR) files that grow, and publish what they gain.", EXAMPLES
    )
    parser.add_argument(
        "files", nargs="*", type=_run.pair, metavar="FILE=STREAM", help="a CSV file, or FILE:/DATASET of an HDF5 file"
    )
    parser.add_argument(
        "--rate",
        type=_run.rate,
        metavar="RATE",
        help="rows per second: they are regular, and what is missing is counted by their times; without it each row has its own time",
    )
    parser.add_argument(
        "--time",
        metavar="COLUMN",
        help="column, or dataset, that is the time; `none` if one that looks like it is a channel",
    )
    parser.add_argument(
        "--time-unit", choices=[*TIME_UNITS, "iso"], help="what it counts [default: as the heading says, else s]"
    )
    parser.add_argument(
        "--columns", metavar="NAMES", help="columns that are channels, divided by commas [default: all but the time]"
    )
    parser.add_argument("--dtype", choices=sorted(DTYPES), help="type of every element of a CSV file [default: f8]")
    parser.add_argument("--unit", help="unit of channels that have none")
    parser.add_argument(
        "--allow-nan",
        action="store_true",
        help="let NaN, infinities and empty fields pass; otherwise such a row is a hole",
    )
    parser.add_argument("--begin", choices=("beginning", "now"), help="where to begin [default: beginning]")
    parser.add_argument(
        "--state", metavar="FILE", help="where it is written down how far we are; the same command goes on from there"
    )
    parser.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        help="hold the first sample until a reader of another host has reported [default: 0.5]",
    )
    return parser.parse_args(argv)


def entries(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns what is to be followed, from file and command line."""
    read = _run.settings(args.config, {"in": IN_KEYS})
    names = ("rate", "time", "time_unit", "dtype", "unit", "begin", "state", "wait")
    common = {key: getattr(args, key) for key in names if getattr(args, key) is not None}
    if args.allow_nan:
        common["allow_nan"] = True
    if args.columns:
        common["columns"] = args.columns.split(",")
    if "state" in common and len(args.files) > 1:
        raise tc.ConfigError("one --state is for one file\nwrite several files into a --config, each with its `state`")
    found = [*read.get("in", []), *({"file": file, "stream": stream, **common} for file, stream in args.files)]
    if not found:
        raise tc.ConfigError("nothing to do\nname files as FILE=STREAM, or a file of settings with --config")
    for entry in found:
        if "file" not in entry or "stream" not in entry:
            raise tc.ConfigError(f"an entry of [[in]] needs `file` and `stream`: {entry}")
    return found


def follower_of(
    spec: dict[str, Any], args: argparse.Namespace, reporter: _run.Reporter, stopping: threading.Event
) -> Follower:
    """Returns what follows a file."""
    try:
        rate = _run.rate(spec["rate"]) if "rate" in spec else None
    except argparse.ArgumentTypeError as error:
        raise tc.ConfigError(str(error)) from error
    if spec.get("begin", "beginning") not in {"beginning", "now"}:
        raise tc.ConfigError(f'begin = "{spec["begin"]}" is neither "beginning" nor "now"')
    path, dataset = _divided(spec["file"])
    begin = spec.get("begin", "beginning")
    if spec.get("state") is not None:
        begin = "resume"
    declaration = Declaration(
        spec["stream"],
        rate or _run.rate(NOMINAL_RATE),
        args.bus,
        args.station,
        on_full="block",
        linger=0.005,
        wait=float(spec.get("wait", 0.5)),
        stopping=stopping,
        own_times=rate is None,
        labels={str(key): str(value) for key, value in spec.get("labels", {}).items()},
    )
    outlet = Outlet(Feed(spec["file"], rate), declaration, reporter)
    if dataset is not None:
        return Hdf5Follower(
            path,
            dataset,
            outlet,
            channel=spec.get("channel", dataset.rsplit("/", 1)[-1]),
            unit=spec.get("unit"),
            time_dataset=spec.get("time"),
            time_unit=spec.get("time_unit", "s"),
            begin=begin,
            state=spec.get("state"),
            regular=rate is not None,
        )
    dtype = DTYPES.get(spec.get("dtype", "f8"), np.dtype("V1"))
    if dtype.kind not in "iuf":
        raise tc.ConfigError(
            f'dtype = "{spec["dtype"]}" cannot be read from text\nsay a whole number or a float: i32, f8 …'
        )
    options = TableOptions(
        dtype,
        spec.get("time"),
        spec.get("time_unit"),
        spec.get("columns", ()),
        spec.get("unit", ""),
        bool(spec.get("allow_nan", False)),
    )
    return CsvFollower(path, outlet, options, begin=begin, state=spec.get("state"), regular=rate is not None)


def _divided(text: str) -> tuple[str, str | None]:
    """Divides ``FILE:/DATASET``; a file without a dataset is text."""
    path, sign, dataset = text.rpartition(":")
    if sign and dataset and path:
        return path, dataset
    if text.lower().endswith(HDF5_SUFFIXES):
        raise tc.ConfigError(f"{text} has many datasets\nname one: {text}:/entry/data")
    return text, None


def run(argv: Sequence[str]) -> int:
    """Bridges until SIGINT or SIGTERM."""
    args = parse(argv)
    specs = entries(args)
    reporter = _run.Reporter("files", as_json=args.json)
    stopping = threading.Event()
    _run.on_end(stopping.set)
    followers = [follower_of(spec, args, reporter, stopping) for spec in specs]
    failure: Exception | None = None
    try:
        while not stopping.is_set():
            if not any([it.turn() for it in followers]):
                stopping.wait(LOOK)
    except TableError as error:
        failure = tc.BridgeError(str(error))
    except tc.Error as error:
        failure = error
    accounts = [it.close() for it in followers]
    for account in accounts:
        reporter.account(account)
    if failure is not None:
        raise failure
    return 0 if all(it["balanced"] for it in accounts) else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command."""
    return _run.command("files", run, argv)


if __name__ == "__main__":
    sys.exit(main())
