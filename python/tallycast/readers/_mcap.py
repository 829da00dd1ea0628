"""MCAP files, by the package mcap: a stream for each topic whose messages hold numbers.

Encodings are JSON, Protobuf (package mcap-protobuf-support) and ROS 2's (package mcap-ros2-support). Numbers of a message are
channels, named by their place: `pose.position.x`; a list of constant length is a channel with a shape. The first message of a
topic determines the channels. Each sample has the log time of its message. Files that Tallycast wrote have a stream for each
epoch, with the index, and so their holes.

Source: the MCAP specification, "Well-known message encodings"; JSON has no integers, so its numbers are f8.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from tallycast._errors import FileError
from tallycast._packages import needed
from tallycast._scaling import is_scaled
from tallycast._schema import Channel, Schema
from tallycast.readers._group import BLOCK_BYTES, FileBlock, FileStream

if TYPE_CHECKING:
    from tallycast.readers import Request

#: Package and extra of each encoding's decoder.
DECODERS = {"protobuf": ("mcap_protobuf.decoder", "mcap-protobuf-support"), "cdr": ("mcap_ros2.decoder", "mcap-ros2-support")}
#: Schema of holes that Tallycast writes beside a stream, whose indices tell the same.
HOLES = "tallycast.Hole"
#: Binary digits of a whole number that f8 holds.
EXACT_BITS = 53

#: Places and lengths of the numbers of a message.
Layout = tuple[tuple[str, tuple[int, ...]], ...]


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    request.no_time("MCAP")
    readers = needed("mcap.reader", "mcap")
    for channel, schema in _channels(readers, request):
        if schema == HOLES:
            continue
        reader = _OwnEpoch if _is_own(channel) else _Topic
        stream = reader(request, channel).stream()
        if stream is not None:
            yield stream


def _channels(readers: Any, request: Request) -> list[tuple[Any, str]]:
    """Returns a channel of each topic, and each epoch of our own, with the name of its schema: by the summary, else by all messages."""
    with request.path.open("rb") as file:
        reader, summary = _reader(readers, file)
        if summary is not None:
            names = {number: schema.name for number, schema in summary.schemas.items()}
            found = ((it, names.get(it.schema_id, "")) for it in summary.channels.values())
        else:
            found = ((it, "" if schema is None else schema.name) for schema, it, _ in reader.iter_messages())
        channels = {(it.topic, it.id if _is_own(it) else None): (it, name) for it, name in found}
        return list(channels.values())


def _is_own(channel: Any) -> bool:
    return "description" in channel.metadata and "epoch" in channel.metadata


def _reader(readers: Any, file: BinaryIO, *decoders: Any) -> tuple[Any, Any]:
    """Returns a reader and the summary; without a whole summary one that reads from the beginning to the end."""
    reader = readers.make_reader(file, decoder_factories=decoders)
    try:
        summary = reader.get_summary()
    except needed("mcap.exceptions", "mcap").McapError:
        summary = None
    if summary is not None and summary.channels:
        if all(it.schema_id in {0, *summary.schemas} for it in summary.channels.values()):
            return reader, summary
    file.seek(0)
    return readers.NonSeekingReader(file, decoder_factories=decoders), None


class _Topic:
    def __init__(self, request: Request, channel: Any) -> None:
        self._path, self.topic, self._channel = request.path, str(channel.topic), channel
        self._encoding: str = channel.message_encoding

    def stream(self) -> FileStream | None:
        """Returns the topic as a stream; None if its messages hold no numbers, or are of another encoding."""
        if self._encoding != "json" and self._encoding not in DECODERS:
            return None
        first = next(self._messages(), None)
        if first is None:
            return None
        found = dict(_numbers(first[1]))
        layout: Layout = tuple((name, np.shape(value)) for name, value in found.items())
        if not layout:
            return None
        channels = tuple(Channel(shape=shape, name=name) for name, shape in layout)
        dtype = np.dtype("<f8")
        name = self.topic.strip("/")

        def read() -> Iterator[FileBlock]:
            return self._blocks(layout)

        return FileStream(name, channels, dtype, None, first[0], None, read, True)

    def _blocks(self, layout: Layout) -> Iterator[FileBlock]:
        elements = sum(int(np.prod(shape, dtype=np.int64)) for _, shape in layout)
        step = max(1, BLOCK_BYTES // (8 * elements))
        rows: list[list[float]] = []
        times: list[int] = []
        for time_ns, message in self._messages():
            rows.append(self._row(dict(_numbers(message)), layout))
            times.append(time_ns)
            if len(rows) == step:
                yield FileBlock(np.array(rows, dtype="<f8"), np.array(times, dtype=np.int64))
                rows, times = [], []
        if rows:
            yield FileBlock(np.array(rows, dtype="<f8"), np.array(times, dtype=np.int64))

    def _row(self, found: dict[str, Any], layout: Layout) -> list[float]:
        row: list[float] = []
        for name, shape in layout:
            value = found.get(name)
            if value is None or np.shape(value) != shape:
                raise FileError(
                    f"messages of {self.topic} change: {name} is no longer {list(shape) or 'a number'}\n"
                    "publish such a topic by a program of its own"
                )
            row += value if shape else [value]
        if any(map(_is_inexact, row)):
            raise FileError(
                f"a number of {self.topic} has more than 53 binary digits, which f8 does not hold exactly\n"
                "publish such a topic by a program of its own"
            )
        return row

    def _messages(self) -> Iterator[tuple[int, Any]]:
        readers = needed("mcap.reader", "mcap")
        with self._path.open("rb") as file:
            if self._encoding == "json":
                for _, _, message in _reader(readers, file)[0].iter_messages(topics=[self.topic]):
                    yield message.log_time, json.loads(message.data)
                return
            module, package = DECODERS[self._encoding]
            reader, _ = _reader(readers, file, needed(module, "mcap", package).DecoderFactory())
            for _, channel, message, decoded in reader.iter_decoded_messages(topics=[self.topic]):
                if self._takes(channel):
                    yield message.log_time, decoded

    def _takes(self, channel: Any) -> bool:
        """Returns whether messages of a channel of the topic are of this stream: of all publishers."""
        return True


class _OwnEpoch(_Topic):
    """An epoch that Tallycast wrote: its rate and units are in the channel's metadata, its holes in the indices.

    Elements come back in their dtype if all of them are there as they were recorded, else as floats.
    """

    def _takes(self, channel: Any) -> bool:
        return bool(channel.id == self._channel.id)

    def stream(self) -> FileStream | None:
        """Returns the epoch as a stream; None if it has no samples."""
        first = next(self._messages(), None)
        if first is None:
            return None
        about = self._channel.metadata
        recorded = Schema._of_json(about["description"])
        is_raw = about.get("values") == "raw" or not any(is_scaled(it) for it in recorded.channels)
        # Integers and flags have no NaN for an element that never arrived.
        is_kept = is_raw and (recorded.dtype.kind in "fc" or about.get("samples") == "whole")
        dtype = recorded.dtype if is_kept else np.dtype("<c16" if recorded.dtype.kind == "c" else "<f8")
        channels = recorded.channels if is_raw else tuple(replace(it, scale=1.0, offset=0.0) for it in recorded.channels)

        def read() -> Iterator[FileBlock]:
            return self._own_blocks(dtype, sum(channel.elements for channel in channels))

        return FileStream(self.topic, channels, dtype, recorded.rate, first[0], None, read, labels=recorded.labels)

    def _own_blocks(self, dtype: np.dtype[Any], elements: int) -> Iterator[FileBlock]:
        step = max(1, BLOCK_BYTES // (dtype.itemsize * elements))
        rows: list[list[complex]] = []
        following, missing = None, 0
        for _, message in self._messages():
            jump = 0 if following is None else message.index - following
            if jump < 0:
                raise FileError(
                    f"{self.topic} has sample {message.index} behind sample {message.index - jump - 1}: its own times go back\n"
                    "export it as HDF5, which keeps the order of the samples"
                )
            if rows and (jump or len(rows) == step):
                yield FileBlock(np.array(rows, dtype), None, missing)
                rows, missing = [], 0
            missing = missing or jump
            rows.append(self._elements(message, dtype))
            following = message.index + 1
        if rows:
            yield FileBlock(np.array(rows, dtype), None, missing)

    def _elements(self, message: Any, dtype: np.dtype[Any]) -> list[complex]:
        row: list[complex] = []
        # Fields follow the index and the missing elements in the order of the channels.
        for field in message.DESCRIPTOR.fields[2:]:
            value: Any = getattr(message, field.name)
            row += map(_one, [value] if isinstance(value, (bool, int, float)) or hasattr(value, "DESCRIPTOR") else value)
        if dtype.kind in "fc" and any(map(_is_inexact, row)):
            raise FileError(
                f"sample {message.index} of {self.topic} has an integer that {dtype} does not hold exactly\n"
                "write the recording with scaled=False, or as HDF5"
            )
        for place in message.missing_elements:
            row[place] = math.nan
        return row


def _one(value: Any) -> complex:
    """Returns a number of a message; complex ones are messages of their own."""
    return complex(value.re, value.im) if hasattr(value, "DESCRIPTOR") else value


def _is_inexact(value: complex) -> bool:
    """Returns whether f8 lacks this integer: it has more significant digits."""
    return isinstance(value, int) and (abs(value) // max(1, value & -value)).bit_length() > EXACT_BITS


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Returns the numbers of a message with their places, and lists of numbers as a whole."""
    if isinstance(value, (bool, int, float)):
        yield name or "value", value
    elif isinstance(value, (list, tuple, np.ndarray)) or type(value).__name__.startswith("Repeated"):
        values = list(value)
        if values and all(isinstance(it, (bool, int, float, np.number)) for it in values):
            yield name or "value", [it.item() if isinstance(it, np.number) else it for it in values]
    elif not isinstance(value, (str, bytes)) and value is not None:
        for key, part in _parts(value):
            yield from _numbers(part, f"{name}.{key}" if name else key)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((str(key), part) for key, part in value.items())
    elif hasattr(value, "DESCRIPTOR"):
        yield from ((field.name, getattr(value, field.name)) for field in value.DESCRIPTOR.fields)
    elif hasattr(value, "__slots__"):
        yield from ((name.lstrip("_"), getattr(value, name)) for name in value.__slots__ if not name.startswith("__"))
