"""The contract of every reach: what publishers and readers may rely on, however data come."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tallycast as tc
from places import WATCHDOG, Place, as_one, check_in_order, joined_elements, until, wait_until_joined

DTYPES = ("int8", "i16", "i32", "i64", "uint8", "u16", "u32", "u64", "f4", "f8", "c8", "c16", "bool")


def any_bits(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> npt.NDArray[Any]:
    """Returns elements of any bits, not-a-numbers with payloads among them."""
    generator = np.random.default_rng(seed)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(generator.bytes(size), dtype).reshape(shape)


def same_bits(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_every_dtype_arrives_bit_for_bit(place: Place) -> None:
    sent, subscribers = [], []
    for seed, dtype in enumerate(DTYPES):
        publisher = place.publisher(f"lab/{dtype}", {"a": "V", "b": "A", "c": ""}, dtype, rate="100k")
        subscribers.append(place.joined(f"lab/{dtype}", until_end=True))
        samples = any_bits(publisher.schema.dtype, (1_000, 3), seed)
        for part in np.array_split(samples, [1, 2, 50, 700]):
            publisher.send(part)
        publisher.close()
        sent.append(samples)
    # Each waits some time at the end for its stream to restart; here all of them at once.
    with ThreadPoolExecutor(len(DTYPES)) as readers:
        came = list(readers.map(list, subscribers))
    for dtype, samples, blocks, subscriber in zip(DTYPES, sent, came, subscribers, strict=True):
        assert same_bits(joined_elements(blocks), samples), dtype
        assert [block.first_index for block in blocks[:1]] == [0] and blocks[-1].next_index == 1_000
        account = check_in_order(subscriber.close(), 3_000)
        assert (account.state, account.lost, account.gaps) == ("closed", {}, [])


def test_images_and_channels_of_several_shapes(place: Place) -> None:
    channels = {"image": tc.Channel("ADU", shape=(40, 30), scale=0.5, offset=-1.0)}
    publisher = place.publisher("lab/camera", channels, "u16", rate=1_000)
    subscriber = place.joined("lab/camera", until_end=True)
    images = any_bits(np.dtype("u2"), (7, 40, 30), 1)
    publisher.send(images)
    publisher.send(images[3])
    publisher.close()
    blocks = list(subscriber)
    assert same_bits(joined_elements(blocks), np.concatenate([images, images[3:4]]))
    assert blocks[0]["image"].shape == (len(blocks[0]), 40, 30)
    assert np.array_equal(blocks[0].values(), blocks[0].array * 0.5 - 1.0)
    check_in_order(subscriber.close(), 8 * 1_200)

    channels = {"spectrum": tc.Channel("dB", shape=(4,)), "power": tc.Channel("W")}
    publisher = place.publisher("lab/mixed", channels, "f8", rate=1_000)
    subscriber = place.joined("lab/mixed", until_end=True)
    publisher.send({"spectrum": np.arange(8.0).reshape(2, 4), "power": [10, 20]})
    publisher.close()
    (block,) = subscriber
    assert block.array.tolist() == [[0, 1, 2, 3, 10], [4, 5, 6, 7, 20]]
    assert block["power"].tolist() == [10, 20] and block["spectrum"][1].tolist() == [4, 5, 6, 7]
    check_in_order(subscriber.close(), 10)


def test_structured_dtypes_come_back_as_they_were(place: Place) -> None:
    for fields in ([("x", "f4"), ("y", "f4", (2,))], [("t", "u4"), ("v", "f8"), ("ok", "?"), ("n", "i2", (3,))]):
        dtype = np.dtype(fields)
        name = f"lab/fields{len(fields)}"
        publisher = place.publisher(name, {"x": "V"} if len(fields) == 2 else None, dtype, rate=1_000)
        subscriber = place.joined(name, until_end=True)
        records = np.zeros(50, dtype)
        generator = np.random.default_rng(3)
        for field in dtype.names or ():
            base = dtype[field].base
            drawn = generator.integers(0, 2 if base.kind == "b" else 30_000, records[field].shape)
            records[field] = drawn.astype(base)
        publisher.send(records)
        publisher.close()
        got = np.concatenate([block.records() for block in subscriber])
        assert got.dtype == dtype and np.array_equal(got, records)
        subscriber.close()


def test_what_the_device_lost_is_a_hole_of_the_source(place: Place) -> None:
    publisher = place.publisher("lab/holes", {"a": "V", "b": "V"}, "i32", rate="10k", linger=0.0)
    subscriber = place.joined("lab/holes", until_end=True)
    t0 = 1_800_000_000_000_000_000
    publisher.send(np.zeros((10, 2), "i4"), t0_ns=t0)
    publisher.skip(5)
    publisher.send(np.ones((10, 2), "i4"), t0_ns=t0 + 1_500_000)
    totals = publisher.close()
    assert (totals["samples"]["numbered"], totals["samples"]["source"]) == (20, 5)
    blocks = list(subscriber)
    (gap,) = [gap for block in blocks for gap in block.gaps]
    assert (gap.first_index, gap.samples, gap.elements) == (10, 5, 10)
    assert (gap.t0_ns - t0, gap.t1_ns - t0) == (1_000_000, 1_500_000)
    assert [block.first_index for block in blocks if block.gaps] == [15]
    account = check_in_order(subscriber.close(), 40)
    # The block carries the gap as it was declared; its stage may become known only with the publisher's next tally.
    (settled,) = account.gaps
    assert (settled.first_index, settled.samples, settled.lost, settled.stage) == (10, 5, {"source": 10}, "source")
    assert account.lost == {"source": 10}


def test_times_are_the_devices_and_those_of_the_rate(place: Place) -> None:
    publisher = place.publisher("lab/third", rate=Fraction(1000, 3))
    subscriber = place.joined("lab/third", until_end=True)
    publisher.send(np.arange(4.0), t0_ns=1_000_000_000)
    publisher.close()
    (block,) = subscriber
    assert block.times.tolist() == [1_000_000_000, 1_003_000_000, 1_006_000_000, 1_009_000_000]
    assert (block.rate, block.times.dtype) == (Fraction(1000, 3), np.int64)
    subscriber.close()


def test_irregular_times_are_kept_to_the_nanosecond(place: Place) -> None:
    publisher = place.publisher("lab/own", rate=100, own_times=True)
    subscriber = place.joined("lab/own", until_end=True)
    # Ticks that repeat, jitter and stop, as a wall clock's do.
    steps = np.random.default_rng(4).integers(0, 40_000_000, 200)
    steps[::7] = 0
    times = 1_800_000_000_000_000_000 + np.cumsum(steps)
    publisher.send(np.arange(200.0), times=times)
    publisher.send([200.0], times=np.array(["2027-01-15T08:01:01.123456789"], "datetime64[ns]"))
    with pytest.raises(tc.ConfigError, match="2 samples have 1 times"):
        publisher.send([1.0, 2.0], times=[1])
    publisher.close()
    blocks = list(subscriber)
    got = np.concatenate([block.times for block in blocks])
    assert np.array_equal(got[:200], times) and got[200] == 1_800_000_061_123_456_789
    assert joined_elements(blocks)[:, 0].tolist() == list(range(201))
    check_in_order(subscriber.close(), 201)


def test_a_publisher_that_is_killed_leaves_an_account_that_says_so(place: Place) -> None:
    program = (
        "import sys, time, tallycast as tc\n"
        "pub = tc.Publisher('lab/victim', rate=10_000, dtype='u4', bus=sys.argv[1], on_full='block')\n"
        "print('open', flush=True)\n"
        "count = 0\n"
        "sys.stdin.readline()\n"
        "while True:\n"
        "    pub.send_when_due(list(range(count, count + 100)))\n"
        "    count += 100\n"
    )
    arguments = [sys.executable, "-c", program, place.publishers]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
        try:
            assert victim.stdout is not None and victim.stdin is not None
            victim.stdout.readline()
            # It must have the samples it receives of the epoch that begins later: a late reader misses the beginning.
            subscriber = place.joined("lab/victim", start="now")
            victim.stdin.write("go\n")
            victim.stdin.flush()
            first = [block for block, _ in zip(subscriber, range(5), strict=False)]
        finally:
            victim.kill()
    # A new epoch of the stream; the reader sees both, and the time between them is no loss.
    publisher = place.publisher("lab/victim", rate=10_000, dtype="u4")
    blocks = first
    while blocks[-1].epoch != publisher.epoch:
        publisher.send_when_due(list(range(100)))
        while (block := subscriber.read(0.02)) is not None:
            blocks.append(block)
    totals = publisher.close()
    old = joined_elements([block for block in blocks if block.epoch != publisher.epoch])
    assert old[:, 0].tolist() == list(range(len(old)))
    accounts = subscriber.close()
    dead = as_one([it for it in accounts if it.epoch != publisher.epoch])
    assert dead.state == "unconfirmed", dead
    assert dead.delivered + sum(dead.lost.values()) + dead.unexplained == dead.sent
    new = as_one([it for it in accounts if it.epoch == publisher.epoch])
    assert new.explained, new
    assert new.sent <= totals["samples"]["numbered"]


def test_a_reader_until_the_end_waits_for_a_publisher_that_only_fell_silent(udp: Place) -> None:
    program = (
        "import sys, tallycast as tc\n"
        "pub = tc.Publisher('lab/stopped', rate=10_000, dtype='u4', bus=sys.argv[1])\n"
        "print('open', flush=True)\n"
        "for _ in sys.stdin:\n"
        "    pub.send(list(range(100)))\n"
        "pub.send(list(range(100)))\n"
        "pub.close()\n"
    )
    told: list[str] = []

    class Waker(logging.Handler):
        """Lets the publisher continue and end once its silence is reported."""

        def emit(self, record: logging.LogRecord) -> None:
            if "fallen silent" not in record.getMessage():
                return
            told.append(record.getMessage())
            stopped.send_signal(signal.SIGCONT)
            assert stopped.stdin is not None
            stopped.stdin.close()

    waker = Waker()
    arguments = [sys.executable, "-c", program, udp.publishers]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stopped:
        try:
            assert stopped.stdout is not None and stopped.stdin is not None
            stopped.stdout.readline()
            subscriber = udp.joined("lab/stopped", until_end=True)
            stopped.stdin.write("go\n")
            stopped.stdin.flush()
            first = next(subscriber)
            stopped.send_signal(signal.SIGSTOP)
            logging.getLogger("tallycast").addHandler(waker)
            rest = list(subscriber)
        finally:
            logging.getLogger("tallycast").removeHandler(waker)
            stopped.kill()
    assert len(told) == 1 and told[0].startswith("stream `lab/stopped` has fallen silent; waiting up to 60 s"), told
    assert sum(len(block) for block in [first, *rest]) == 200
    assert [account.state for account in subscriber.close()] == ["unconfirmed", "closed"]


def test_planted_loss_is_told_number_by_number(udp: Place) -> None:
    publisher = udp.publisher("lab/lossy", {"a": "V"}, "u4", rate=1_000_000, loss=0.05)
    subscriber = udp.joined("lab/lossy", until_end=True)
    samples = np.arange(300_000, dtype="u4")
    for part in np.array_split(samples, 100):
        publisher.send_when_due(part)
    totals = publisher.close()
    assert totals["datagrams"]["injected"] > 0
    blocks = list(subscriber)
    arrived = joined_elements(blocks)[:, 0]
    account = check_in_order(subscriber.close(), len(arrived))
    lost = np.concatenate([np.arange(g.first_index, g.first_index + g.samples) for g in account.gaps])
    # A socket whose reader is delayed may lose some too, and reports that; planted losses are counted exactly.
    assert account["datagrams"]["lost"]["injected"] == totals["datagrams"]["injected"]
    assert account.lost["injected"] > 0 and sum(account.lost.values()) == len(lost)
    assert np.array_equal(np.sort(np.concatenate([arrived, lost])), samples)
    told = [gap for block in blocks for gap in block.gaps]
    assert sum(gap.samples for gap in told) <= len(lost), "the last may not precede a block"


def test_a_reader_that_sleeps_hurts_nobody_and_is_told_what_it_lost(place: Place) -> None:
    # Declared so slow that the receiver has a small ring; the publisher's own has this size.
    publisher = place.publisher("lab/fast", dtype="u64", rate="1k", queue_bytes=1 << 20)
    awake = place.joined("lab/fast", until_end=True, reader="awake")
    asleep = place.joined("lab/fast", until_end=True, reader="asleep")
    got: list[tc.Block] = []

    def has_come(index: int) -> bool:
        if (block := awake.read(0.01)) is not None:
            got.append(block)
        return bool(got) and got[-1].next_index == index

    # Twice what any of the rings holds.
    for first in range(0, 2 * (1 << 20) // 8, 1_000):
        publisher.send(np.arange(first, first + 1_000, dtype="u8"))
        until(lambda: has_come(first + 1_000), "what was sent")  # noqa: B023 - it is called at once
    publisher.close()
    got += awake
    account = check_in_order(awake.close(), sum(len(block) for block in got))
    assert account.reader in ("awake", "asleep"), "a process has one name on the network"
    assert account.lost == {}
    late = joined_elements(list(asleep))[:, 0]
    assert np.all(np.diff(late.astype(np.int64)) > 0)
    account = check_in_order(asleep.close(), len(late))
    assert account.lost.get("reader_lag", 0) > 0, account


def test_one_million_samples_a_second_for_half_a_minute(shm: Place, udp: Place) -> None:
    """Every sample is its own index, so that a wrong copy is detected."""
    program = (
        "import sys, json, numpy as np, tallycast as tc\n"
        "from places import as_one\n"
        "sub = tc.Subscriber('lab/million', until_end=True, timeout=60, bus=sys.argv[1])\n"
        "wrong = samples = 0\n"
        "for block in sub:\n"
        "    want = np.arange(block.first_index, block.next_index, dtype='u4')\n"
        "    wrong += int(np.count_nonzero(block.array[:, 0] != want))\n"
        "    samples += len(block)\n"
        "account = as_one(sub.close())\n"
        "print(json.dumps([wrong, samples, dict(account) | {'gaps': []}]), flush=True)\n"
    )
    places = (shm, udp)
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", program, place.readers], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent
        )
        for place in places
    ]
    try:
        publishers = [place.publisher("lab/million", dtype="u4", rate=1_000_000) for place in places]
        for publisher in publishers:
            assert publisher.wait_for_readers(1, WATCHDOG) == 1
        for first in range(0, 30_000_000, 10_000):
            samples = np.arange(first, first + 10_000, dtype="u4")
            publishers[0].send_when_due(samples)
            publishers[1].send(samples)
        for publisher in publishers:
            assert publisher.close()["samples"]["numbered"] == 30_000_000
        for reader in readers:
            assert reader.stdout is not None
            wrong, samples_read, account = json.loads(reader.stdout.readline())
            elements = account["elements"]
            lost = sum(elements["lost"].values())
            assert wrong == 0
            assert samples_read == elements["delivered"]
            assert elements["delivered"] + lost == 30_000_000 - elements["first"]
            assert account["explained"] and elements["unexplained"] == 0, account
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()


def test_streams_are_listed_with_how_they_would_come(place: Place) -> None:
    with place.publisher("lab/listed", {"a": "V", "b": "A"}, "i16", rate="48k"):
        mine = lambda: [it for it in tc.streams(0.0, place.readers) if it.name == "lab/listed"]  # noqa: E731
        (info,) = until(mine, "listed")
        assert (info.dtype, info.rate, info.channels, info.elements_per_sample) == (np.dtype("i2"), 48_000, 2, 2)
        assert info.reach in ("shm", "udp")


def test_two_patterns_and_one_that_is_left(place: Place) -> None:
    publishers = {name: place.publisher(name, rate=1_000, linger=0.0) for name in ("a/one", "b/two")}
    subscriber = tc.Subscriber("a/*", "b/*", bus=place.readers)
    wait_until_joined(subscriber, 2)
    assert subscriber.patterns == ["a/*", "b/*"]
    subscriber.remove("b/*")
    for publisher in publishers.values():
        publisher.send([1.0, 2.0])
        publisher.close()
    until(lambda: any(it.stream == "a/one" and it.state == "closed" for it in drained(subscriber)), "the end of a/one")
    accounts = subscriber.close()
    one, two = (as_one([account for account in accounts if account.stream == name]) for name in publishers)
    assert (one.state, one.delivered) == ("closed", 2)
    # A publisher that was silent just before has left nothing to cut.
    assert two.state in ("cut", "unconfirmed") and two.delivered == 0


def drained(subscriber: tc.Subscriber) -> list[tc.Account]:
    while subscriber.read(0.01) is not None:
        pass
    return subscriber.accounts()
