"""A file's streams for another process: ``python -m tallycast.readers FILE``, as `tallycast pub --file` calls it.

Standard output has one line of JSON, then frames: a letter, a count (`<Q`), and content. The line is `{"streams": [names]}` of a
file with several streams where none is chosen, and `{"error": text}` of one that cannot be read; no frames follow these.

    S  count samples, each elements × size of the dtype
    T  count times (`<q`, nanoseconds), then as many samples
    H  count samples are missing
    X  count bytes of text: the error that ends the stream
    E  the end

The layout is private to one version of the command and the package.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from tallycast._errors import Error, FileError
from tallycast._schema import dtype_name
from tallycast.readers import read_file
from tallycast.readers._group import FileStream

#: The largest text that the command takes.
MAX_TEXT_BYTES = 1 << 16


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m tallycast.readers", description="Streams of a file, as frames.")
    parser.add_argument("file")
    parser.add_argument("--stream", help="the stream, if there are several")
    parser.add_argument("--time", help="time column or data set; `none`: no times")
    parser.add_argument("--column", action="append", default=[], help="channel to read; may be given several times")
    return parser.parse_args(argv)


def chosen(streams: Mapping[str, FileStream], columns: Sequence[str]) -> Mapping[str, FileStream]:
    """Returns the streams with the chosen columns, each with its own of them; without a choice all."""
    if not columns:
        return streams
    names = {name: [it.name for it in stream.channels] for name, stream in streams.items()}
    known = {channel for channels in names.values() for channel in channels}
    unknown = [column for column in columns if column not in known]
    if unknown:
        raise FileError(f"the file has no channel {unknown[0]}\nits channels are: {', '.join(sorted(known))}")
    own = {name: [column for column in columns if column in channels] for name, channels in names.items()}
    return {name: streams[name].only(chosen) for name, chosen in own.items() if chosen}


def told(stream: FileStream) -> dict[str, Any]:
    """Returns the description of a stream."""
    channels = [
        {"name": c.name, "unit": c.unit, "shape": list(c.shape), "scale": c.scale, "offset": c.offset} for c in stream.channels
    ]
    rate = None if stream.rate is None else f"{stream.rate.numerator}/{stream.rate.denominator}"
    return {
        "name": stream.name, "dtype": dtype_name(stream.dtype), "rate": rate, "start_ns": stream.start_ns,
        "samples": stream.samples, "channels": channels, "labels": dict(stream.labels), "left_out": list(stream.left_out),
    }  # fmt: skip


def put(output: BinaryIO, stream: FileStream, with_times: bool) -> None:
    """Writes the frames of a stream."""
    for block in stream.blocks():
        if block.missing_before:
            output.write(struct.pack("<cQ", b"H", block.missing_before))
        if not len(block.array):
            continue
        if with_times and block.times is not None:
            output.write(struct.pack("<cQ", b"T", len(block.array)))
            output.write(block.times.astype("<i8").tobytes())
        else:
            output.write(struct.pack("<cQ", b"S", len(block.array)))
        output.write(block.array.astype(block.array.dtype.newbyteorder("<"), copy=False).tobytes())


def run(args: argparse.Namespace, output: BinaryIO) -> None:
    """Writes the description and the frames."""
    with_times = args.time != "none"
    streams = chosen(read_file(args.file, time=args.time if with_times else None), args.column)
    if args.stream is None and len(streams) > 1:
        say(output, {"streams": list(streams)})
        return
    stream = streams[args.stream or next(iter(streams))]
    say(output, told(stream))
    try:
        put(output, stream, with_times)
    except Error as error:
        text = str(error).encode()[:MAX_TEXT_BYTES]
        output.write(struct.pack("<cQ", b"X", len(text)) + text)
    else:
        output.write(struct.pack("<cQ", b"E", 0))


def say(output: BinaryIO, line: dict[str, Any]) -> None:
    """Writes the first line."""
    output.write(json.dumps(line).encode() + b"\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; a reader that is gone ends it."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # What a package prints must not come between the frames.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with output:
        try:
            run(parse(sys.argv[1:] if argv is None else argv), output)
        except Error as error:
            say(output, {"error": str(error)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
