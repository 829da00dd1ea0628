"""Sound and any other program as a stream: ``arecord … | python -m tallycast.bridges.stdin … NAME``.

The command ``tallycast pub --stdin`` does all of it; this is the same command among the bridges, where users look for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import tallycast as tc
from tallycast._command import find_command

from ._run import command


def arguments(argv: Sequence[str]) -> list[str]:
    """Returns the arguments of `tallycast`: lines of numbers, or raw input if a dtype is given."""
    if any(it in {"-h", "--help"} for it in argv):
        return ["pub", "--help"]
    form = (
        []
        if any(it.split("=")[0] == "--stdin" for it in argv)
        else ["--stdin", "raw" if _has(argv, "--dtype") else "lines"]
    )
    return ["pub", *form, *argv]


def _has(argv: Sequence[str], option: str) -> bool:
    return any(it == option or it.startswith(f"{option}=") for it in argv)


def run(argv: Sequence[str]) -> int:
    """Becomes `tallycast pub`."""
    path = find_command()
    try:
        os.execv(path, [path, *arguments(argv)])
    except OSError as error:
        raise tc.BridgeError(f"cannot run {path}: {error.strerror}") from error


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command."""
    return command("stdin", run, argv)


if __name__ == "__main__":
    sys.exit(main())
