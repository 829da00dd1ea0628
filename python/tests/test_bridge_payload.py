"""Exact samples of payloads, and refusals."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from tallycast.bridges._payload import DTYPES, PayloadError, PayloadFormat, time_ns
from tallycast.bridges.mqtt import Subscription

ONE = {"value": ""}


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_raw_elements_are_taken_bit_by_bit(name: str) -> None:
    dtype = DTYPES[name]
    bits = np.arange(8 * dtype.itemsize, dtype="u1")
    sent = bits.view(dtype) if dtype.kind != "b" else np.array([True, False] * 4)
    content = PayloadFormat("raw", dtype, {"a": "a", "b": "b"}).read(sent.tobytes())
    assert content.values.shape == (4, 2) and content.values.tobytes() == sent.tobytes()


def test_raw_payloads_of_part_of_a_sample_are_refused() -> None:
    form = PayloadFormat("raw", np.dtype("<f8"), {"a": "a", "b": "b"})
    for size in (0, 8, 15, 17, 24):
        with pytest.raises(PayloadError):
            form.read(bytes(size))
    assert len(form.read(bytes(16)).values) == 1
    with pytest.raises(PayloadError, match="bool"):
        PayloadFormat("raw", np.dtype("?"), ONE).read(b"\x02")


@pytest.mark.parametrize("text", ["0.1", " -1.5e-7\n", "12345678901234568", "5e-324"])
def test_plain_numbers_are_the_nearest_floats(text: str) -> None:
    content = PayloadFormat("number", np.dtype("<f8"), ONE).read(text.encode())
    assert content.values.tobytes() == np.array([float(text)]).tobytes()


def test_whole_numbers_are_exact_to_the_last_one_that_fits() -> None:
    form = PayloadFormat("number", np.dtype("<i8"), ONE)
    for value in (-(2**63), 2**63 - 1, 2**53 + 1):
        assert form.read(str(value).encode()).values.tolist() == [value]
    for text in (str(2**63), "1.5", "abc", "", "\xff"):
        with pytest.raises(PayloadError):
            form.read(text.encode("latin-1"))


def test_json_is_read_by_paths() -> None:
    form = PayloadFormat(
        "json", np.dtype("<f8"), {"flow": "flow.value", "t": "temps.1"}, time="ts", time_unit="ms", sequence="n"
    )
    payload = json.dumps({"flow": {"value": 0.1}, "temps": [1, 2.5], "ts": 1790000000123.25, "n": 7})
    content = form.read(payload.encode())
    assert content.values.tolist() == [[0.1, 2.5]]
    assert (content.t_ns, content.sequence) == (1_790_000_000_123_250_000, 7)


def test_lists_in_json_are_samples_one_behind_the_other() -> None:
    content = PayloadFormat("json", np.dtype("<i4"), {"value": "v"}).read(b'{"v": [1, 2, 3]}')
    assert content.values.tolist() == [1, 2, 3]


F8, JSON = np.dtype("<f8"), {"value": "v"}

#: Payloads that are no sample of an f8, of whatever a program may send.
STRANGE: list[bytes] = [
    b'{"v": 1' + b"0" * 400 + b"}",
    b'{"v": 1' + b"0" * 5_000 + b"}",
    b"[" * 200_000,
    b'{"v":' * 100_000,
    b'{"v": 9007199254740993}',
    b'{"v": NaN}',
    b'{"v": -Infinity}',
    b'{"v": 1e400}',
    b'{"v": "\\ud800"}',
    b'{"v": {"a": []}}',
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    "{\"v\": 1}".encode("utf-32")[:7],
    b"\x00" * 9,
    b'{"v": 1, "n": true, "t": 1}',
    b'{"v": 1, "n": -1, "t": 1}',
    b'{"v": 1, "n": 9223372036854775808, "t": 1}',
    b'{"v": 1, "n": 1, "t": 1767323045123}',
    b'{"v": 1, "n": 1, "t": "1e999999999"}',
    b'{"v": 1, "n": 1, "t": "1/3"}',
    b'{"v": 1, "n": 1, "t": 1' + b"0" * 400 + b"}",
]


@pytest.mark.parametrize("payload", STRANGE, ids=lambda payload: repr(payload[:24]))
@pytest.mark.parametrize("kind", ["json", "number"])
def test_a_payload_that_is_no_sample_is_refused_with_words(kind: str, payload: bytes) -> None:
    form = PayloadFormat(kind, F8, JSON, time="t" if b'"t"' in payload else None, sequence="n" if b'"n"' in payload else None)
    with pytest.raises(PayloadError) as refused:
        form.read(payload)
    said = str(refused.value)
    assert len(said) < 300 and all(it.isprintable() or it == "\n" for it in said)


def test_whatever_a_peer_sends_is_a_sample_or_refused() -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    good = json.dumps({"v": [1, 2.5, -3e7], "t": "2026-09-21T14:13:20.000001Z", "n": 7}).encode()
    words = [b"1e400", b"NaN", b"null", b"true", b'"x"', b"[" * 9, b"9" * 30, b"\xff", b"{}", b",", b'\\"', b"-"]
    for _ in range(3_000):
        payload = bytearray(good)
        for _ in range(chance.randrange(1, 5)):
            at, length = chance.randrange(len(payload) + 1), chance.randrange(4)
            payload[at : at + length] = chance.choice([*words, chance.randbytes(chance.randrange(4))])
        for kind, dtype in (("json", "f8"), ("json", "f4"), ("json", "i8"), ("json", "?"), ("number", "i2"), ("raw", "f8")):
            form = PayloadFormat(kind, np.dtype(dtype), JSON, "t", "iso", "n")
            try:
                content = form.read(bytes(payload))
            except PayloadError:
                continue
            assert content.values.dtype == np.dtype(dtype) and len(content.values) > 0, f"seed {seed}: {payload!r}"
            assert kind == "raw" or np.isfinite(content.values).all(), f"seed {seed}: {payload!r}"


def test_nan_is_a_sample_where_it_is_allowed_and_what_goes_beyond_is_not() -> None:
    form = PayloadFormat("json", F8, JSON, allow_nan=True)
    assert np.isnan(form.read(b'{"v": NaN}').values[0]) and np.isinf(form.read(b'{"v": -Infinity}').values[0])
    for payload in (b'{"v": 1e400}', b'{"v": 1' + b"0" * 400 + b"}"):
        with pytest.raises(PayloadError, match="goes beyond the range"):
            form.read(payload)
    with pytest.raises(PayloadError, match="goes beyond the range"):
        PayloadFormat("json", np.dtype("f4"), JSON, allow_nan=True).read(b'{"v": 1e39}')
    assert PayloadFormat("number", F8, ONE, allow_nan=True).read(b"-inf").values.tolist() == [float("-inf")]


@pytest.mark.parametrize(
    ("dtype", "taken", "refused"),
    [("f8", 2**53, 2**53 + 1), ("f4", 2**24, 2**24 + 1), ("i8", 2**63 - 1, 2**63), ("u1", 255, 256), ("i2", -(2**15), -(2**15) - 1)],
)
def test_whole_numbers_are_taken_up_to_the_last_exact_one(dtype: str, taken: int, refused: int) -> None:
    def read(value: int) -> Any:
        return PayloadFormat("json", np.dtype(dtype), JSON).read(json.dumps({"v": value}).encode()).values[0]

    assert int(read(taken)) == taken
    with pytest.raises(PayloadError):
        read(refused)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b'{"v": null}',
        b'{"v": "x"}',
        b'{"w": 1}',
        b'{"v": []}',
        b'{"v": true}',
        b'{"v": [1, [2]]}',
        b'{"v": {"a": 1}}',
    ],
)
def test_json_without_the_value_is_refused(payload: bytes) -> None:
    with pytest.raises(PayloadError):
        PayloadFormat("json", np.dtype("<f8"), {"value": "v"}).read(payload)


def test_times_are_exact_in_every_unit() -> None:
    assert time_ns(1790000000123456789, "ns") == 1790000000123456789
    assert time_ns(1790000000.5, "s") == 1790000000500000000
    assert time_ns("1790000000.123456789", "s") == 1790000000123456789
    assert time_ns("2026-09-21T14:13:20.000001Z", "iso") == 1790000000000001000
    assert time_ns("2026-09-21T16:13:20+02:00", "iso") == 1790000000000000000
    assert time_ns("2026-01-02T03:04:05.123456789Z", "iso") == 1767323045123456789
    beyond: list[tuple[Any, str]] = [(9_214_646_400, "s"), (-9_214_646_401, "s"), ("2262-01-01T00:00:00Z", "iso"), (1767323045123, "s")]
    none: list[tuple[Any, str]] = [("2026-01-02 03:04:05", "iso"), ("+10s", "iso"), (1767323045, "iso"), ("1767323045", "iso"), ("1_0", "s")]
    for value, unit in (("x", "s"), (True, "s"), ("nan", "s"), (float("inf"), "s"), ("yesterday", "iso"), *beyond, *none):
        with pytest.raises(PayloadError):
            time_ns(value, unit)


def test_topics_name_their_streams_by_what_the_pattern_met() -> None:
    def stream(pattern: str, name: str, topic: str) -> str | None:
        return Subscription({"topic": pattern, "stream": name}).stream_of(topic)

    assert stream("plant/+/flow", "lab/{1}", "plant/a/flow") == "lab/a"
    assert stream("plant/+/flow", "lab/{1}", "plant/a/b/flow") is None
    assert stream("plant/#", "lab/{1}", "plant/a/b") == "lab/a/b"
    assert stream("+/x/+", "{2}/{1}", "a/x/b") == "b/a"
    assert stream("a.b", "{topic}", "aXb") is None
    assert stream("#", "{topic}", "a/b") == "a/b"
