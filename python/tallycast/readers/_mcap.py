"""MCAP files, by the package mcap: a stream for each topic whose messages hold numbers.

Encodings are JSON, Protobuf (package mcap-protobuf-support) and ROS 2's (package mcap-ros2-support). Numbers of a message are
channels, named by their place: `pose.position.x`; a list of constant length is a channel with a shape. The first message of a
topic determines the channels. Each sample has the log time of its message; files that Tallycast wrote have the index, and so
their holes.

Source: the MCAP specification, "Well-known message encodings"; JSON has no integers, so its numbers are f8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from tallycast._errors import FileError
from tallycast._packages import needed
from tallycast._schema import Channel
from tallycast.readers._group import BLOCK_BYTES, FileBlock, FileStream

if TYPE_CHECKING:
    from tallycast.readers import Request

#: Package and extra of each encoding's decoder.
DECODERS = {"protobuf": ("mcap_protobuf.decoder", "mcap-protobuf-support"), "cdr": ("mcap_ros2.decoder", "mcap-ros2-support")}
#: Schema of holes that Tallycast writes beside a stream, whose indices tell the same.
HOLES = "tallycast.Hole"
#: Largest whole number up to which f8 has each.
EXACT = 2**53

#: Places and lengths of the numbers of a message.
Layout = tuple[tuple[str, tuple[int, ...]], ...]


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    request.no_time("MCAP")
    readers = needed("mcap.reader", "mcap")
    for topic, (channel, schema) in _topics(readers, request).items():
        if schema == HOLES:
            continue
        reader = _OwnTopic if "description" in channel.metadata else _Topic
        stream = reader(request, topic, channel).stream()
        if stream is not None:
            yield stream


def _topics(readers: Any, request: Request) -> dict[str, tuple[Any, str]]:
    """Returns a channel of each topic with the name of its schema: by the summary, else by all messages."""
    with request.path.open("rb") as file:
        reader, summary = _reader(readers, file)
        if summary is not None:
            names = {number: schema.name for number, schema in summary.schemas.items()}
            return {it.topic: (it, names.get(it.schema_id, "")) for it in summary.channels.values()}
        found = ((channel, schema) for schema, channel, _ in reader.iter_messages())
        return {channel.topic: (channel, "" if schema is None else schema.name) for channel, schema in found}


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
    def __init__(self, request: Request, topic: str, channel: Any) -> None:
        self._path, self.topic, self._channel = request.path, topic, channel
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
        if any(isinstance(value, int) and abs(value) > EXACT for value in row):
            raise FileError(
                f"a number of {self.topic} is beyond 2^53, which f8 does not hold exactly\n"
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
            for _, _, message, decoded in reader.iter_decoded_messages(topics=[self.topic]):
                yield message.log_time, decoded


class _OwnTopic(_Topic):
    """A stream that Tallycast wrote: its rate and units are in the channel's metadata, its holes in the indices."""

    def stream(self) -> FileStream | None:
        described = json.loads(self._channel.metadata["description"])
        first = next(self._messages(), None)
        if first is None or described["dtype"] in ("c8", "c16"):
            return super().stream()
        channels = tuple(Channel(it["unit"], tuple(it["shape"]), name=it["name"]) for it in described["channels"])
        rate = Fraction(described["rate"]["numerator"], described["rate"]["denominator"])
        return FileStream(
            self.topic, channels, np.dtype("<f8"), rate, first[0], None, lambda: self._own_blocks(channels),
            labels=described.get("labels", {}),
        )  # fmt: skip

    def _own_blocks(self, channels: tuple[Channel, ...]) -> Iterator[FileBlock]:
        following = None
        for _, message in self._messages():
            # Fields follow the index and the missing elements in the order of the channels.
            fields = message.DESCRIPTOR.fields[2:]
            values = [getattr(message, field.name) for field in fields]
            row = np.concatenate([np.array(value, dtype="<f8").reshape(-1) for value in values])
            row[list(message.missing_elements)] = np.nan
            missing = 0 if following is None else message.index - following
            following = message.index + 1
            yield FileBlock(row.reshape(1, -1), None, missing)


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
