"""Reading in all supported ways: by iteration, asynchronously, by callback, in chunks, the newest."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from places import WATCHDOG, Place, check_in_order, joined_elements, until, wait_until_joined


def in_thread(function: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_async_for_reads_all_and_ends(shm: Place) -> None:
    publisher = shm.publisher("lab/async", rate=10_000, linger=0.0)

    async def read() -> list[tc.Block]:
        async with tc.Subscriber("lab/async", until_end=True, timeout=WATCHDOG, bus=shm.readers) as subscriber:
            await asyncio.to_thread(wait_until_joined, subscriber)
            for k in range(20):
                publisher.send([float(k)] * 100)
            await asyncio.to_thread(publisher.close)
            return [block async for block in subscriber]

    blocks = asyncio.run(read())
    assert joined_elements(blocks)[:, 0].tolist() == [float(k) for k in range(20) for _ in range(100)]


def test_who_is_cancelled_while_it_waits_loses_no_block(shm: Place) -> None:
    publisher = shm.publisher("lab/cancel", rate=10_000, linger=0.0)
    subscriber = shm.joined("lab/cancel", until_end=True)

    async def read() -> list[float]:
        values: list[float] = []
        for k in range(10):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(subscriber), 0.01)
            publisher.send([float(k)])
            values += (await anext(subscriber)).array[:, 0].tolist()
        return values

    assert asyncio.run(read()) == [float(k) for k in range(10)]
    publisher.close()
    check_in_order(subscriber.close(), 10)


def test_two_streams_are_read_side_by_side_in_one_loop(shm: Place) -> None:
    publishers = [shm.publisher(f"lab/side{k}", rate=1_000) for k in range(2)]
    subscribers = [shm.joined(f"lab/side{k}", until_end=True) for k in range(2)]

    async def count(subscriber: tc.Subscriber) -> int:
        return sum([len(block) async for block in subscriber])

    async def both() -> list[int]:
        tasks = [asyncio.create_task(count(subscriber)) for subscriber in subscribers]
        for k, publisher in enumerate(publishers):
            publisher.send(np.zeros(100 * (k + 1)))
            await asyncio.to_thread(publisher.close)
        return await asyncio.gather(*tasks)

    assert asyncio.run(both()) == [100, 200]
    for subscriber in subscribers:
        subscriber.close()


def test_a_function_is_called_with_every_block(shm: Place) -> None:
    publisher = shm.publisher("lab/call", rate=10_000)
    subscriber = shm.joined("lab/call")
    seen: list[float] = []
    with subscriber.on_block(lambda block: seen.extend(block.array[:, 0].tolist())):
        publisher.send(np.arange(100.0))
        until(lambda: len(seen) == 100, "every sample")
    publisher.close()
    assert seen == list(range(100))
    check_in_order(subscriber.close(), 100)


def test_what_a_function_raises_is_told_by_its_listener(shm: Place) -> None:
    publisher = shm.publisher("lab/raise", rate=10_000)
    subscriber = shm.joined("lab/raise")
    called = threading.Event()

    def fail(block: tc.Block) -> None:
        called.set()
        raise ValueError(f"cannot use {block.stream}")

    listener = subscriber.on_block(fail)
    publisher.send([1.0])
    assert called.wait(WATCHDOG)
    with pytest.raises(ValueError, match="cannot use lab/raise"):
        listener.close()
    listener.close()  # reported once
    publisher.close()
    subscriber.close()


def test_chunks_as_people_know_them_from_lsl(shm: Place) -> None:
    publisher = shm.publisher("lab/chunk", {"a": "", "b": ""}, "f4", rate=1_000)
    subscriber = shm.joined("lab/chunk")
    samples, stamps = subscriber.pull_chunk()
    assert len(samples) == len(stamps) == 0
    sent = np.arange(5_000, dtype="f4").reshape(-1, 2)
    publisher.send(sent, t0_ns=1_000_000_000)
    got, times = [], []
    while sum(map(len, got)) < 2_500:
        samples, stamps = subscriber.pull_chunk(timeout=WATCHDOG, max_samples=1_024)
        assert 0 < len(samples) == len(stamps) <= 1_024
        got.append(samples)
        times.append(stamps)
    assert np.array_equal(np.concatenate(got), sent)
    assert np.allclose(np.concatenate(times), 1.0 + np.arange(2_500) / 1_000, rtol=0, atol=1e-6)
    publisher.close()
    check_in_order(subscriber.close(), 5_000)


def test_chunks_are_of_one_stream(shm: Place) -> None:
    publishers = [shm.publisher(f"lab/{k}", rate=1_000) for k in range(2)]
    subscriber = tc.Subscriber("lab/*", bus=shm.readers)
    wait_until_joined(subscriber, 2)
    for publisher in publishers:
        publisher.send([1.0])
    with pytest.raises(tc.ConfigError, match="one stream"):
        while True:
            subscriber.pull_chunk(timeout=WATCHDOG)
    subscriber.close()


def test_the_newest_passes_over_what_is_old(shm: Place) -> None:
    publisher = shm.publisher("lab/newest", dtype="i64", rate=1_000, linger=0.0)
    subscriber = shm.joined("lab/newest", newest=True)
    for k in range(1_000):
        publisher.send([k])
    block = subscriber.read(WATCHDOG)
    assert block is not None
    assert block.array[-1, 0] == 999 and block.skipped + len(block) == 1_000
    publisher.close()
    account = check_in_order(subscriber.close(), 1_000)
    assert account.lost == {}, "skipped samples were delivered: this reader asked to skip them"


def test_a_time_out_ends_an_iteration_and_read_returns_nothing(shm: Place) -> None:
    with tc.Subscriber("lab/nobody", timeout=0.02, bus=shm.readers) as subscriber:
        assert list(subscriber) == []
        assert subscriber.read(0.0) is None
        with pytest.raises(tc.ConfigError, match="time-out"):
            subscriber.read(-1.0)


def test_closing_wakes_whoever_waits_in_another_thread(shm: Place) -> None:
    subscriber = tc.Subscriber("lab/nobody", bus=shm.readers)
    errors: list[BaseException] = []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        try:
            subscriber.read()
        except tc.Closed as error:
            errors.append(error)

    thread = in_thread(wait)
    assert waiting.wait(WATCHDOG)
    assert subscriber.close() == []
    thread.join(WATCHDOG)
    assert not thread.is_alive()
    assert "open another one" in str(errors[0])
    assert subscriber.closed and subscriber.close() == []


def test_arrays_outlive_their_blocks_and_their_subscriber(shm: Place) -> None:
    publisher = shm.publisher("lab/owner", dtype="u4", rate="1M", linger=0.0)
    subscriber = shm.joined("lab/owner", until_end=True)
    kept: list[tuple[int, Any]] = []
    draw = random.Random(5)
    for k in range(500):
        publisher.send(np.full(draw.choice([1, 100, 5_000]), k, "u4"))
        while (block := subscriber.read(0.0)) is not None:
            if draw.random() < 0.3:
                view = block.array[draw.randrange(len(block)) :]
                kept.append((block.first_index + len(block) - len(view), view))
            if draw.random() < 0.1 and kept:
                kept.pop(draw.randrange(len(kept)))
    reference = {index: view.copy() for index, view in kept}
    publisher.close()
    rest = list(subscriber)
    subscriber.close()
    del subscriber, rest
    gc.collect()
    # Memory that was given back is used again: arrays that are kept must not be.
    scratch = [np.zeros(5_000, "u4") for _ in range(200)]
    assert kept and all(np.array_equal(view, reference[index]) for index, view in kept)
    assert len(scratch) == 200


def test_the_array_of_a_block_is_the_readers_own(shm: Place) -> None:
    publisher = shm.publisher("lab/mine", dtype="f4", rate=1_000)
    readers = [shm.joined("lab/mine", until_end=True) for _ in range(2)]
    publisher.send(np.zeros(10, "f4"))
    publisher.close()
    (first,), (second,) = (list(reader) for reader in readers)
    first.array[:] = 7.0
    assert second.array.sum() == 0.0
    assert first.array.flags.c_contiguous and first.array.flags.writeable and not first.array.flags.owndata
    assert first.valid() and len(first) == 10
    assert "lab/mine: [10, 1] float32 from sample 0" in repr(first)
    for reader in readers:
        check_in_order(reader.close(), 10)


def test_a_block_knows_its_account_while_it_runs_and_after(shm: Place) -> None:
    publisher = shm.publisher("lab/account", rate=1_000, linger=0.0)
    subscriber = shm.joined("lab/account", reader="watcher")
    publisher.send([1.0, 2.0])
    block = subscriber.read(WATCHDOG)
    assert block is not None and block.account is not None
    assert (block.account.state, block.account.delivered, block.account.reader) == ("open", 2, "watcher")
    publisher.close()
    until(lambda: subscriber.read(0.0) is None and block.account.state == "closed", "the end")
    check_in_order(subscriber.close(), 2)
    with pytest.raises(tc.Closed):
        block.account  # noqa: B018 - the property is what is tested


def test_an_account_is_read_beside_whoever_reads_the_stream(shm: Place) -> None:
    publisher = shm.publisher("lab/beside", rate=1_000, linger=0.0)
    stop = threading.Event()

    def feed() -> None:
        while not stop.is_set():
            publisher.send_when_due([1.0] * 10)

    thread = in_thread(feed)

    def read() -> list[tc.Account]:
        accounts = tc.account("lab/*", duration=0.5, bus=shm.readers)
        return [account for account in accounts if account.delivered > 0]

    try:
        (account,) = until(read, "something in so short a time")
    finally:
        stop.set()
        thread.join()
    assert account.stream == "lab/beside" and account.balanced and account.state == "cut"
    publisher.close()


def test_views_of_the_ring_say_when_they_were_overtaken(shm: Place) -> None:
    publisher = shm.publisher("lab/views", dtype="u4", rate="1M", queue_bytes=1 << 22)
    subscriber = shm.joined("lab/views", views=True)
    publisher.send(np.arange(10_000, dtype="u4"))
    publisher.send(np.arange(10_000, 10_010, dtype="u4"))
    large, small = subscriber.read(WATCHDOG), subscriber.read(WATCHDOG)
    assert large is not None and small is not None
    assert large.array.sum() == sum(range(10_000)) and large.valid()
    assert not large.array.flags.writeable and not large.array.flags.owndata
    assert small.array[:, 0].tolist() == list(range(10_000, 10_010)) and small.array.flags.writeable
    for first in range(10_010, 2_000_000, 10_000):
        publisher.send(np.arange(first, first + 10_000, dtype="u4"))
    assert not large.valid() and small.valid(), "the ring wrapped around; the small one was copied"
    copied = 10_010
    publisher.close()
    while (block := subscriber.read(0.0)) is not None:
        copied += len(block)
    account = check_in_order(subscriber.close(), copied)
    assert account.lost["reader_lag"] > 0
    del subscriber, publisher
    assert large.array.shape == (10_000, 1), "its memory stays mapped"
    assert int(large.array[0, 0]) >= 0


def test_a_reader_that_spins_is_given_everything_on_every_way(place: Place) -> None:
    with place.publisher("lab/probe", dtype="u32", rate=10_000) as publisher:
        subscriber = place.joined("lab/probe", spin=0.002, until_end=True)
        for first in range(0, 2_000, 10):
            publisher.send(np.arange(first, first + 10, dtype="u4"))
    blocks = list(subscriber)
    assert (joined_elements(blocks)[:, 0] == np.arange(2_000)).all()
    check_in_order(subscriber.close(), 2_000)


def test_how_long_a_reader_spins_is_a_time(shm: Place) -> None:
    with pytest.raises(tc.ConfigError, match="spin is a number of seconds of 0 or more, not -1"):
        tc.Subscriber("lab/probe", spin=-1.0, bus=shm.readers)


def test_a_closed_reader_hands_out_nothing_that_it_had_read(shm: Place) -> None:
    with shm.publisher("lab/probe", dtype="f4", rate=1_000_000) as publisher:
        subscriber = shm.joined("lab/probe")
        for _ in range(4):
            publisher.send(np.zeros(8_192, "f4"))
        assert subscriber.read(WATCHDOG) is not None
        subscriber.close()
        with pytest.raises(tc.Closed):
            subscriber.read(0.0)
