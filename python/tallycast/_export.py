"""A stored epoch as a file of another format: ``python -m tallycast._export``, as `tallycast query --export` calls it.

Standard output has one object of JSON: `samples`, `holes` (as `query --gaps` has them) and `damage`, or `error`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from tallycast._convert.pieces import outline
from tallycast._errors import ArchiveError, Error
from tallycast._excerpt import Excerpt
from tallycast._recording import ALL_INDICES
from tallycast.archive import open_archive

#: Methods of an excerpt by format.
FORMATS = {"hdf5": "to_hdf5", "mcap": "to_mcap", "mat": "to_mat", "netcdf": "to_netcdf"}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m tallycast._export", description="A stored epoch as a file.")
    for name in ("root", "run", "stream", "epoch"):
        parser.add_argument(name)
    parser.add_argument("t0", type=int)
    parser.add_argument("t1", type=int)
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("file")
    parser.add_argument("--force", action="store_true")
    return parser.parse_args(argv)


def export(args: argparse.Namespace) -> dict[str, Any]:
    """Writes the file; returns what is in it and what is not."""
    archive = open_archive(args.root, args.run, damaged="holes")
    recordings = [it for it in archive[args.stream].recordings if it.epoch == args.epoch]
    excerpt = Excerpt(recordings, (args.t0, args.t1), ALL_INDICES)
    holes = [hole for hole in excerpt.gaps if hole.samples]
    samples = outline(excerpt).rows
    if samples == 0:
        missing = sum(hole.samples for hole in holes)
        raise ArchiveError(
            f"nothing is stored in this range; {missing} samples are missing in it\n"
            "list the recordings without --from and --to, or use --gaps"
        )
    getattr(excerpt, FORMATS[args.format])(args.file, overwrite=args.force)
    damage = sorted({hole.damage for hole in holes if hole.damage is not None})
    return {"samples": samples, "holes": [hole.json() for hole in holes], "damage": damage}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command."""
    # What a package prints must not come between.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        told = export(parse(sys.argv[1:] if argv is None else argv))
    except Error as error:
        told = {"error": str(error)}
    with output:
        output.write(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
