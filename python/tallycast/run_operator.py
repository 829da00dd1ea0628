"""``python -m tallycast.run_operator``: an operator in its own process, started by a monitor or by a user.

    python -m tallycast.run_operator my_ops:rms --name rms --input lab/probe --output lab/probe/rms

It ends with Ctrl-C or SIGTERM: the output gets its final tally, and the accounts of the inputs are printed, one a line.
With ``--tended`` it also ends when standard input closes, and reports its state twice a second.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional, TextIO

import numpy as np

from tallycast import _core
from tallycast._operating import Operating
from tallycast._errors import Error
from tallycast._operator import load
from tallycast._schema import _NUMPY, Channel

#: Interval between reports of its state. Units: seconds.
REPORT_EVERY = 0.5
#: Once standard input has closed it may take so long to end.
ENDING_PATIENCE_NS = 3_000_000_000


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs an operator; returns the exit code: 0 fine, 1 its function failed, 2 it could not run."""
    asked = _arguments().parse_args(arguments)
    out = _own_output()
    stop = threading.Event()
    is_over: Callable[[], bool] = stop.is_set
    if asked.tended:
        leash = _core.hold_leash(ENDING_PATIENCE_NS)
        is_over = lambda: stop.is_set() or leash.loose  # noqa: E731
        # Standard input is the leash: a function that reads gets nothing.
        sys.stdin = open(os.devnull, encoding="utf-8")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        operating = _begin(asked)
    except Exception as error:
        # Errors of the user's module keep their traceback, others are one sentence.
        if not isinstance(error, Error):
            traceback.print_exc()
        else:
            print(error, file=sys.stderr)
        return 2
    say = _Saying(out, operating) if asked.tended else None
    code = 0
    try:
        if say is not None:
            say.ready()
        while not is_over():
            operating.turn()
    except Exception:
        traceback.print_exc()
        code = 1
    accounts = operating.close()
    if say is not None:
        say.last()
    else:
        for account in accounts:
            print(json.dumps(dict(account)), file=out, flush=True)
    return code


class _Saying:
    """Reports an operator's state, from its own thread: also while its function runs."""

    def __init__(self, out: TextIO, operating: Operating) -> None:
        self._out = out
        self._operating = operating
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="operator-report", daemon=True)

    def ready(self) -> None:
        self._say({"event": "ready"})
        self._thread.start()

    def last(self) -> None:
        """Reports the last sums."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._report()

    def _run(self) -> None:
        while not self._over.wait(REPORT_EVERY):
            self._report()

    def _report(self) -> None:
        sums = vars(self._operating.sums)
        self._say({"event": "report", "behind_ns": self._operating.lag.behind_ns(), **sums})

    def _say(self, word: dict[str, Any]) -> None:
        with self._lock:
            try:
                print(json.dumps(word), file=self._out, flush=True)
            except BrokenPipeError:
                # The monitor is gone: the closed standard input ends this process.
                self._over.set()


def _begin(asked: argparse.Namespace) -> Operating:
    if asked.memory is not None:
        _limit_memory(asked.memory)
    if asked.tended:
        _offer_first()
    loaded = load(asked.function, json.loads(asked.settings), only_declared=asked.declared)
    channels = {name: Channel(unit, tuple(shape)) for name, unit, shape in map(_channel, asked.channel)}
    declaration = loaded.declaration.over(
        dtype=None if asked.dtype is None else np.dtype(_NUMPY[asked.dtype]),
        channels=channels or None,
        every=asked.every,
        incomplete=asked.incomplete,
    )
    where, _, function = asked.function.rpartition(":")
    return Operating(
        loaded,
        declaration,
        name=asked.name or function,
        place=f"{os.path.basename(where)}:{function}",
        inputs=asked.input,
        output=asked.output,
        bus=asked.bus,
        # A separate node only for another name would cost threads.
        station=None if asked.station == socket.gethostname() else asked.station,
    )


def _limit_memory(size_bytes: int) -> None:
    """Limits what this process can allocate: beyond that, ``MemoryError`` ends the function."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = size_bytes if most == resource.RLIM_INFINITY else min(size_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _offer_first() -> None:
    """Has the kernel end this process first where memory is short: the monitor starts it again."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        # Not every container has it; its own limit holds there.
        pass


def _channel(text: str) -> tuple[str, str, list[int]]:
    said = json.loads(text)
    return said["name"], said.get("unit", ""), said.get("shape", [])


def _own_output() -> TextIO:
    """Keeps standard output for this program: what the function prints goes to standard error."""
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tallycast.run_operator", description="Run an operator.")
    parser.add_argument("function", help="module:function or path.py:function")
    parser.add_argument("--name", help="name of the operator [default: the function's name]")
    parser.add_argument("--input", action="append", required=True, help="a stream to read; the first gives the grid")
    parser.add_argument("--output", required=True, help="the stream to publish")
    parser.add_argument("--every", type=int, help="samples of the input for each result")
    parser.add_argument("--dtype", choices=_NUMPY, help="type of the results, named as in the settings: i8 is one byte")
    parser.add_argument("--channel", action="append", default=[], help='{"name", "unit", "shape"} of the results')
    parser.add_argument("--incomplete", choices=("hole", "give"), help="how to treat incomplete input")
    parser.add_argument("--settings", default="{}", help="arguments for the function, as a JSON object")
    parser.add_argument("--memory", type=int, metavar="BYTES", help="memory that this process may have")
    parser.add_argument("--declared", action="store_true", help="run only what is declared with @tc.operator")
    parser.add_argument("--bus", help="network settings, as for tallycast [default: TALLYCAST_BUS]")
    parser.add_argument("--station", help="name of this station [default: the host's name]")
    parser.add_argument("--tended", action="store_true", help="end with standard input, and report the state")
    return parser


if __name__ == "__main__":
    sys.exit(main())
