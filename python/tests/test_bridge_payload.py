"""Exact samples of payloads, and refusals."""

from __future__ import annotations

import json

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


@pytest.mark.parametrize("text", ["0.1", " -1.5e-7\n", "12345678901234567", "nan", "5e-324"])
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
    for value, unit in (("x", "s"), (True, "s"), ("nan", "s"), (float("inf"), "s"), ("yesterday", "iso")):
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
