"""MCAP files, as robotics tools read them: a Protobuf message for each sample, a JSON message for each hole.

Messages are laid out in NumPy: all fields have fixed widths on the wire, so that every whole sample takes the same bytes, and
its elements are copied bit for bit. The log time is the sample's time; holes are on a separate topic.

Source: the MCAP specification (well-known encodings `protobuf` and `jsonschema`), Protocol Buffers encoding.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallycast._convert.columns import Column, columns, parts
from tallycast._convert.pieces import outline, pieces
from tallycast._errors import ArchiveError
from tallycast._moments import text_of
from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._excerpt import Stretch, Rows
    from tallycast._gap_map import Hole
    from tallycast._scaling import Array

#: JSON schema of a hole.
HOLE_SCHEMA: dict[str, Any] = {
    "title": "tallycast.Hole",
    "type": "object",
    "properties": {
        "first_index": {"type": "integer"},
        "samples": {"type": "integer"},
        "from_ns": {"type": "integer"},
        "to_ns": {"type": ["integer", "null"]},
        "lost": {"type": "object", "additionalProperties": {"type": "integer"}},
        "unexplained": {"type": "integer"},
        "unsettled": {"type": "integer"},
        "reader_absent": {"type": "integer"},
        "gaps": {"type": "array", "items": {"type": "object"}},
    },
}

#: Numbers of field types in a descriptor, and the wire's type: 0 a varint, 1 eight bytes, 5 four bytes, 2 with a length.
_DOUBLE, _FLOAT, _FIXED64, _FIXED32, _BOOL, _MESSAGE, _UINT32, _SFIXED32, _SFIXED64 = 1, 2, 6, 7, 8, 11, 13, 15, 16
_OPTIONAL, _REPEATED = 1, 3


class Field(NamedTuple):
    """A field of the message: its name and number, its encoding, and its bytes in every row."""

    name: str
    number: int
    kind: int
    label: int
    type_name: str
    rows: npt.NDArray[np.uint8]


def write(rows: Rows, path: Path, scaled: bool) -> None:
    """Writes the rows into a file."""
    writers = needed("mcap.writer", "mcap")
    with path.open("wb") as file:
        writer = writers.Writer(file, compression=writers.CompressionType.ZSTD)
        writer.start(profile="", library="tallycast")
        holes = writer.register_schema("tallycast.Hole", "jsonschema", json.dumps(HOLE_SCHEMA).encode())
        gaps = writer.register_channel(f"{rows.stream}/gaps", "json", holes)
        for stretch in rows.stretches:
            _stretch(writer, stretch, gaps, scaled)
        writer.finish()


def _stretch(writer: Any, stretch: Stretch, gaps: int, scaled: bool) -> None:
    looked = outline(stretch)
    about = {"epoch": stretch.epoch, "description": json.dumps(stretch.recording._told["description"])}
    account = json.dumps(stretch.account)
    writer.add_metadata("tallycast", {"run": stretch.run, "stream": stretch.stream, "account": account, **about})
    # By these a reader knows in which dtype all numbers are exact.
    about |= {"values": "scaled" if scaled else "raw", "samples": "partial" if looked.partial else "whole"}
    ahead = deque(sorted(stretch.gaps, key=lambda hole: hole.t0_ns))
    channel = None
    for _, piece in pieces(stretch, looked.rows):
        fields = _fields(piece, scaled)
        if channel is None:
            schema = writer.register_schema("tallycast.Sample", "protobuf", _descriptor(fields))
            channel = writer.register_channel(stretch.stream, "protobuf", schema, about)
        _samples(writer, channel, piece, fields, ahead, gaps)
    for hole in ahead:
        _hole(writer, gaps, hole)


def _samples(writer: Any, channel: int, piece: Stretch, fields: list[Field], ahead: deque[Hole], gaps: int) -> None:
    times, index = piece.times.tolist(), piece.index.tolist()
    if min(times) < 0:
        raise ArchiveError(f"{piece.stream} begins at {text_of(min(times))}, and the times of MCAP in 1970\nwrite HDF5 or Parquet")
    for row, message in enumerate(_messages(piece, fields)):
        # A hole in its place: viewers and players read in the order of time.
        while ahead and ahead[0].t0_ns <= times[row]:
            _hole(writer, gaps, ahead.popleft())
        writer.add_message(channel, times[row], message, times[row], sequence=index[row] % 2**32)


def _hole(writer: Any, gaps: int, hole: Hole) -> None:
    # MCAP's times are unsigned.
    time_ns = max(0, hole.t0_ns)
    writer.add_message(gaps, time_ns, json.dumps(hole.json()).encode(), time_ns)


def _messages(stretch: Stretch, fields: list[Field]) -> Iterator[bytes]:
    whole = np.concatenate([field.rows for field in fields], axis=1)
    missing = stretch.missing
    partial = set() if missing is None else set(np.flatnonzero(missing.reshape(len(whole), -1).any(axis=1)).tolist())
    for row, message in enumerate(whole):
        yield message.tobytes() + (_missing(stretch, row) if row in partial else b"")


def _missing(stretch: Stretch, row: int) -> bytes:
    """Returns the field that names the elements of a sample which never arrived."""
    assert stretch.missing is not None, "only samples that are there in part come here"
    content = b"".join(_varint(int(element)) for element in np.flatnonzero(stretch.missing[row]))
    return _tag(2, 2) + _varint(len(content)) + content


def _fields(stretch: Stretch, scaled: bool) -> list[Field]:
    fields = [Field("index", 1, _FIXED64, _OPTIONAL, "", _scalars(1, stretch.index))]
    taken = {"index", "missingelements"}
    for number, column in enumerate(columns(stretch, scaled), 16):
        fields.append(_field(column, number, _valid_name(column.channel.name, taken)))
    return fields


def _field(column: Column, number: int, name: str) -> Field:
    values, kind = _on_the_wire(column.values)
    rows = len(values)
    if column.values.dtype.kind == "c":
        numbers = parts(values).reshape(-1, 2)
        message = np.concatenate([_scalars(1, numbers[:, 0]), _scalars(2, numbers[:, 1])], axis=1)
        each = message.reshape(rows, column.channel.elements, message.shape[1])
        head = _constant(each.shape[:2], _tag(number, 2) + _varint(message.shape[1]))
        label = _REPEATED if column.channel.shape else _OPTIONAL
        content = np.concatenate([head, each], axis=2).reshape(rows, -1)
        return Field(name, number, _MESSAGE, label, f".tallycast.Sample.{_complex(values)}", content)
    if not column.channel.shape:
        return Field(name, number, kind, _OPTIONAL, "", _scalars(number, values))
    content = np.ascontiguousarray(values.reshape(rows, -1)).view(np.uint8).reshape(rows, -1)
    head = _constant((rows,), _tag(number, 2) + _varint(content.shape[1]))
    return Field(name, number, kind, _REPEATED, "", np.concatenate([head, content], axis=1))


def _complex(values: Array) -> str:
    return "Complex64" if values.dtype.itemsize == 8 else "Complex128"


def _on_the_wire(values: Array) -> tuple[Array, int]:
    """Returns values in a type of fixed width that holds them, and its number in a descriptor."""
    kinds: dict[str, tuple[str, int]] = {
        "i1": ("<i4", _SFIXED32), "i2": ("<i4", _SFIXED32), "i4": ("<i4", _SFIXED32), "i8": ("<i8", _SFIXED64),
        "u1": ("<u4", _FIXED32), "u2": ("<u4", _FIXED32), "u4": ("<u4", _FIXED32), "u8": ("<u8", _FIXED64),
        "f4": ("<f4", _FLOAT), "f8": ("<f8", _DOUBLE), "c8": ("<c8", _MESSAGE), "c16": ("<c16", _MESSAGE), "b1": ("?", _BOOL),
    }  # fmt: skip
    dtype, kind = kinds[values.dtype.str[1:]]
    return values.astype(dtype, copy=False), kind


def _scalars(number: int, values: Array) -> npt.NDArray[np.uint8]:
    """Returns a field of one value for each row."""
    wire = {8: 1, 4: 5, 1: 0}[values.dtype.itemsize]
    content = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    return np.concatenate([_constant((len(values),), _tag(number, wire)), content], axis=1)


def _constant(shape: tuple[int, ...], content: bytes) -> npt.NDArray[np.uint8]:
    return np.broadcast_to(np.frombuffer(content, dtype=np.uint8), (*shape, len(content)))


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _varint(value: int) -> bytes:
    content = bytearray()
    while value >= 0x80:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)


def _descriptor(fields: list[Field]) -> bytes:
    """Returns the file descriptor set that describes the message: `google.protobuf.FileDescriptorSet`."""
    told = [_described(field.name, field.number, field.kind, field.label, field.type_name) for field in fields]
    told.insert(1, _described("missing_elements", 2, _UINT32, _REPEATED, ""))
    message = _text(1, "Sample") + b"".join(_bytes(2, field) for field in told)
    for name, kind in (("Complex64", _FLOAT), ("Complex128", _DOUBLE)):
        parts = [_described("re", 1, kind, _OPTIONAL, ""), _described("im", 2, kind, _OPTIONAL, "")]
        message += _bytes(3, _text(1, name) + b"".join(_bytes(2, part) for part in parts))
    file = _text(1, "tallycast/sample.proto") + _text(2, "tallycast") + _bytes(4, message) + _text(12, "proto3")
    return _bytes(1, file)


def _described(name: str, number: int, kind: int, label: int, type_name: str) -> bytes:
    told = _text(1, name) + _number(3, number) + _number(4, label) + _number(5, kind)
    return told + (_text(6, type_name) if type_name else b"")


def _bytes(number: int, content: bytes) -> bytes:
    return _tag(number, 2) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _number(number: int, value: int) -> bytes:
    return _tag(number, 0) + _varint(value)


def _valid_name(channel: str, taken: set[str]) -> str:
    """Returns the channel's name as Protobuf allows it, different from all before it, also as the name in JSON.

    `T_1` and `T1` are one there; the readers of proto3 compare names without underscores, and some without case.
    """
    name = base = re.sub(r"[^A-Za-z0-9_]", "_", channel) or "channel"
    if not name[0].isalpha():
        name = base = f"channel_{name}"
    number = 2
    while _in_json(name) in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(_in_json(name))
    return name


def _in_json(name: str) -> str:
    return name.replace("_", "").lower()
