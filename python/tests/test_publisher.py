"""Publishing: accepted and refused samples, and their errors."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from places import WATCHDOG, Place, check_in_order, joined_elements, until


def sent(place: Place, block: Any, channels: Any = None, dtype: Any = "f8") -> list[Any]:
    """Sends a block and returns the samples that arrive."""
    publisher = place.publisher("lab/sent", channels, dtype, rate=1_000)
    subscriber = place.joined("lab/sent", until_end=True)
    publisher.send(block)
    publisher.close()
    samples = joined_elements(list(subscriber))
    check_in_order(subscriber.close(), samples.size)
    return samples.tolist()  # type: ignore[no-any-return]


TWO = {"a": "V", "b": "A"}


@pytest.mark.parametrize(
    ("block", "channels", "dtype", "arrives"),
    [
        ([[1, 2], [3, 4]], TWO, "f8", [[1, 2], [3, 4]]),
        ([1, 2], TWO, "f8", [[1, 2]]),
        ((1.5, 2.5, 3.5), None, "f8", [[1.5], [2.5], [3.5]]),
        (7.5, None, "f8", [[7.5]]),
        (range(3), None, "i16", [[0], [1], [2]]),
        (np.arange(6)[::2], None, "uint8", [[0], [2], [4]]),
        (np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]), TWO, "f4", [[1, 2], [3, 4]]),
        (np.array([[1, 2]], ">i4"), TWO, "i32", [[1, 2]]),
        ({"b": [3, 4], "a": [1, 2]}, TWO, "int8", [[1, 3], [2, 4]]),
        (np.array([(1, 2)], [("b", "i2"), ("a", "i2")]), TWO, "i16", [[2, 1]]),
        ([True, False], None, "bool", [[True], [False]]),
        (np.array([1 + 2j], "c8"), None, "c16", [[1 + 2j]]),
    ],
)
def test_samples_are_taken_as_people_hold_them(
    shm: Place, block: Any, channels: Any, dtype: str, arrives: list[Any]
) -> None:
    assert sent(shm, block, channels, dtype) == arrives


@pytest.mark.parametrize(
    ("block", "channels", "dtype", "text"),
    [
        ([[1, 2, 3]], TWO, "f8", r"shape \[1, 3\], not \[samples, 2\]"),
        ([1, 2, 3], TWO, "f8", r"shape \[3\], not \[samples, 2\]"),
        ([200], None, "int8", r"200 to 200 go beyond -128 to 127\nscale the samples"),
        ([-1], None, "u16", "go beyond 0 to 65535"),
        ([0.5], None, "i32", r"int32, not float64\nconvert the samples"),
        ([1j], None, "f8", "float64, not complex128"),
        (["1"], None, "f8", "not <U1"),
        ({"a": [1], "c": [1]}, TWO, "f8", "the channels are a, b, not a, c"),
        ({"a": [1], "b": [1, 2]}, TWO, "f8", "1, 2 samples"),
    ],
)
def test_samples_that_do_not_fit_are_refused_with_what_to_do(
    shm: Place, block: Any, channels: Any, dtype: str, text: str
) -> None:
    with shm.publisher("lab/refused", channels, dtype, rate=1_000) as publisher:
        with pytest.raises(tc.ConfigError, match=text):
            publisher.send(block)
        assert publisher.next_index == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": "a b", "rate": 1}, "invalid stream name"),
        ({"name": "a"}, "needs a sample rate"),
        ({"name": "a", "rate": "fast"}, "fast"),
        ({"name": "a", "rate": 0}, "rate"),
        ({"name": "a", "rate": float("nan")}, "a rate is samples per second"),
        ({"name": "a", "rate": 1, "dtype": "g"}, "unsupported dtype"),
        ({"name": "a", "rate": 1, "dtype": "i8"}, 'write "int64" or "int8"'),
        ({"name": "a", "rate": 1, "dtype": "nonsense"}, "unknown dtype"),
        ({"name": "a", "rate": 1, "dtype": [("t", "i8"), ("v", "f8")]}, "t would be rounded to float64"),
        ({"name": "a", "rate": 1, "channels": {"c": tc.Channel(shape=(0,))}}, "channel `c`"),
        ({"name": "a", "rate": 1, "channels": ["c", "c"]}, "two channels are named `c`"),
        ({"name": "a", "rate": 1, "on_full": "wait"}, "overwrite, block or error"),
        ({"name": "a", "rate": 1, "patience": -1.0}, "patience"),
        ({"name": "a", "rate": 1, "bus": "http://x"}, "http"),
        ({"name": "a", "rate": 1, "bus": "shm://x?speed=3"}, "speed"),
        ({"name": "a", "rate": 1, "to": ["nowhere"]}, "invalid address `nowhere`"),
        ({"name": "a", "rate": 1, "loss": 0.1}, "planted loss"),
        ({"name": "a", "rate": 1, "clock": "sundial"}, "sundial"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_opened(
    shm: Place, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(tc.ConfigError, match=text):
        tc.Publisher(**{"bus": shm.publishers, **arguments})
    assert issubclass(tc.ConfigError, (tc.Error, ValueError))


def test_a_bus_names_a_file_of_keys_that_is_of_use(tmp_path: Path) -> None:
    def refused(keys: Path) -> str:
        with pytest.raises(tc.ConfigError) as error:
            tc.Publisher("lab/a", rate=1, bus=f"udp://239.84.0.0:7400?iface=lo&keys={keys}")
        return str(error.value)

    keys = tmp_path / "daq-1.keys"
    assert "there is no file of keys" in refused(keys)
    keys.write_text("no keys\n")
    keys.chmod(0o644)
    assert f"chmod 600 {keys}" in refused(keys)
    keys.chmod(0o600)
    assert "daq-1.keys, line 1: " in refused(keys)


def test_a_queue_that_is_full_says_so(shm: Place) -> None:
    with shm.publisher("lab/full", rate=1_000, on_full="error", queue_bytes=1 << 16) as publisher:
        with pytest.raises(tc.ConfigError, match="a block of 800000 bytes does not fit"):
            publisher.send(np.zeros(100_000))


def test_threads_share_a_publisher(shm: Place) -> None:
    publisher = shm.publisher("lab/threads", dtype="i64", rate=10_000, queue_bytes=1 << 22)
    subscriber = shm.joined("lab/threads", until_end=True)

    def send(thread: int) -> None:
        for k in range(200):
            publisher.send([thread * 1_000 + k] * (1 if k % 2 else 10_000 // 100))

    threads = [threading.Thread(target=send, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    publisher.close()
    values = joined_elements(list(subscriber))[:, 0]
    assert len(values) == 4 * (100 + 100 * 100)
    for thread in range(4):
        of_one = values[values // 1_000 == thread] % 1_000
        assert np.all(np.diff(of_one) >= 0), "each thread's blocks stay in order"
    check_in_order(subscriber.close(), len(values))


def test_a_forked_child_gets_a_clear_error_and_can_open_its_own(shm: Place) -> None:
    publisher = shm.publisher("lab/parent", rate=1_000)
    subscriber = shm.joined("lab/parent", until_end=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for act in (lambda: publisher.send([1.0]), lambda: subscriber.read(0.0), publisher.close, subscriber.close):
            try:
                act()
                said.append("no error")
            except tc.ForkError as error:
                said.append(str(error).splitlines()[1][:17])
        with tc.Publisher("lab/child", rate=1_000, bus=shm.publishers) as own:
            own.send([1.0])
            said.append(str(own.next_index))
        os.write(writing, "|".join(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode().split("|")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert said == ["open it in the ch"] * 4 + ["1"]
    publisher.send([1.0])
    publisher.close()
    assert len(joined_elements(list(subscriber))) == 1
    check_in_order(subscriber.close(), 1)


def threads_since(before: set[str]) -> list[str]:
    """Returns the names of this process's threads that were not there before."""
    names = []
    for thread in set(os.listdir("/proc/self/task")) - before:
        try:
            names.append(Path(f"/proc/self/task/{thread}/comm").read_text().strip())
        except OSError:
            # It has ended meanwhile.
            continue
    return sorted(names)


def wait_for_threads(before: set[str], wanted: list[str]) -> None:
    """Waits until there are these threads more than before: one has its name, and is gone, a little after it is waited for."""
    until(lambda: threads_since(before) == wanted, f"threads {wanted}")


#: The kernel keeps 15 letters of a name.
SENDING, RECEIVING = "tallycast-send", "tallycast-recei"


def test_threads_end_with_the_last_that_needs_them(udp: Place) -> None:
    before = set(os.listdir("/proc/self/task"))
    publisher = udp.publisher("lab/threads", rate=1_000)
    one, other = udp.joined("lab/threads"), tc.Subscriber("lab/*", bus=udp.readers)
    # A process sends and receives once for all.
    wait_for_threads(before, [RECEIVING, SENDING])
    one.close()
    publisher.close()
    assert threads_since(before) == [RECEIVING, SENDING], "there is another reader, and they are of one node"
    other.close()
    wait_for_threads(before, [])
    # An object that was not closed ends when it becomes unreachable.
    publisher = udp.publisher("lab/threads", rate=1_000)
    wait_for_threads(before, [SENDING])
    del publisher
    wait_for_threads(before, [])
    assert tc.streams(0.0, udp.readers) == []
    wait_for_threads(before, [])


def test_a_forked_child_has_threads_of_its_own_and_leaves_the_parents_alone(udp: Place) -> None:
    before = set(os.listdir("/proc/self/task"))
    publisher, subscriber = udp.publisher("lab/parent", rate=1_000), udp.joined("lab/parent", until_end=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            mine = set(os.listdir("/proc/self/task"))
            own = tc.Publisher("lab/child", rate=1_000, bus=udp.publishers)
            wait_for_threads(mine, [SENDING])
            own.close()
            wait_for_threads(mine, [])
            # Objects of the parent are released silently, and without waiting for threads that do not exist here.
            del publisher, subscriber
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    wait_for_threads(before, [RECEIVING, SENDING])
    publisher.send([1.0])
    publisher.close()
    assert len(joined_elements(list(subscriber))) == 1
    check_in_order(subscriber.close(), 1)
    wait_for_threads(before, [])


def test_epochs_begun_one_after_the_other_have_later_starts(shm: Place) -> None:
    epochs = []
    for _ in range(5):
        with shm.publisher("lab/epochs", rate=1_000) as publisher:
            epochs.append(publisher.epoch)
    assert len(set(epochs)) == 5 and epochs == sorted(epochs)


def test_a_forked_child_that_ends_like_any_program_does_not_hang(shm: Place) -> None:
    program = (
        "import os, sys, tallycast as tc\n"
        "pub = tc.Publisher('lab/forking', rate=1_000, bus=sys.argv[1])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, shm.publishers], capture_output=True, text=True, timeout=WATCHDOG, check=True
    )
    assert (ended.stdout, ended.stderr) == ("3\n", "")


def test_a_program_that_does_not_close_says_its_last_word_all_the_same(shm: Place) -> None:
    program = (
        "import sys, tallycast as tc\n"
        "pub = tc.Publisher('lab/careless', rate=1_000, bus=sys.argv[1])\n"
        "print('open', flush=True)\n"
        "sys.stdin.readline()\n"
        "pub.send([1.0, 2.0])\n"
    )
    arguments = [sys.executable, "-c", program, shm.publishers]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as careless:
        assert careless.stdout is not None and careless.stdin is not None
        careless.stdout.readline()
        subscriber = shm.joined("lab/careless", until_end=True)
        careless.stdin.write("go\n")
        careless.stdin.flush()
        samples = joined_elements(list(subscriber))
    assert samples.tolist() == [[1.0], [2.0]]
    assert check_in_order(subscriber.close(), 2).state == "closed"


def test_what_is_closed_says_so_and_closing_twice_is_nothing(shm: Place) -> None:
    publisher = shm.publisher("lab/closed", rate=1_000)
    publisher.send([1.0])
    assert publisher.close()["samples"]["offered"] == 1
    assert publisher.closed and publisher.close() == {}
    with pytest.raises(tc.Closed, match="`lab/closed` is closed\nopen another one"):
        publisher.send([1.0])


def test_readers_beyond_this_memory_are_known_to_the_publisher(udp: Place) -> None:
    publisher = udp.publisher("lab/known", rate=1_000)
    subscriber = udp.joined("lab/known", reader="far")
    (reader,) = until(publisher.readers, "a report")
    assert reader["unexplained"] == 0
    publisher.close()
    subscriber.close()


def test_warnings_come_by_logging(udp: Place, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tallycast"):
        publisher = udp.publisher("lab/large", {"image": tc.Channel(shape=(100, 100))}, rate=10)
        subscriber = tc.Subscriber("lab/large", max_sample_bytes=1_000, bus=udp.readers)
        until(lambda: (subscriber.read(0.01), [r for r in caplog.records if r.name == "tallycast"])[1], "a warning")
        publisher.close()
        subscriber.close()
    assert "allow more with max_sample_bytes" in caplog.text


def test_a_stream_keeps_its_labels_and_says_what_it_is(shm: Place) -> None:
    channels = {"current": tc.Channel("A", scale=0.01, offset=2.0)}
    publisher = shm.publisher("lab/labels", channels, "i16", rate="48k", labels={"device": "probe-1"})
    subscriber = shm.joined("lab/labels", until_end=True)
    publisher.send([100])
    publisher.close()
    (block,) = subscriber
    schema = block.schema
    assert schema == publisher.schema
    assert (schema.labels, schema.rate, schema.dtype) == ({"device": "probe-1"}, 48_000, np.dtype("i2"))
    assert schema.channels == (tc.Channel("A", (), 0.01, 2.0, "current"),)
    assert block.values().tolist() == [[3.0]]
    with pytest.raises(KeyError, match="the channels are: current"):
        block["voltage"]
    subscriber.close()
    assert "lab/labels: 1 channels of int16 at 48000/s" in repr(publisher)


def test_a_reader_that_waited_gets_the_first_sample_of_every_epoch(shm: Place) -> None:
    with tc.Subscriber("lab/begin", timeout=WATCHDOG, until_end=True, bus=shm.readers) as subscriber:
        for epoch in range(3):
            with shm.publisher("lab/begin", rate=10) as publisher:
                publisher.send([10.0 * epoch, 10.0 * epoch + 1])
        blocks: list[tc.Block] = []
        while len(blocks) < 3:
            block = subscriber.read(WATCHDOG)
            assert block is not None
            blocks.append(block)
    assert joined_elements(blocks).ravel().tolist() == [0, 1, 10, 11, 20, 21]
    assert [block.first_index for block in blocks] == [0, 0, 0]
    assert all(account.balanced and account.explained for account in subscriber.close())


def test_a_reader_that_starts_now_takes_what_comes(shm: Place) -> None:
    with pytest.raises(tc.ConfigError, match="use beginning or now"):
        tc.Subscriber("lab/now", start="later", bus=shm.readers)
    with tc.Subscriber("lab/now", start="now", bus=shm.readers) as subscriber, shm.publisher("lab/now", rate=10) as publisher:
        publisher.send([1.0, 2.0])
        assert publisher.wait_for_readers(timeout=0.0) == 0
        until(lambda: subscriber.read(0.0) or publisher.wait_for_readers(timeout=0.0), "found")
        publisher.send([3.0])
        block = subscriber.read(WATCHDOG)
        assert block is not None and (block.first_index, block.array.tolist()) == (2, [[3.0]])


def test_a_publisher_waits_for_so_many_readers(place: Place) -> None:
    with place.publisher("lab/waits", rate=1_000) as publisher:
        # Through an agent the publisher receives the agent's reports, and the agent reads every stream.
        assert publisher.wait_for_readers(timeout=0.0) in ((0, 1) if place.transport == "agent" else (0,))
        with place.joined("lab/waits"):
            assert publisher.wait_for_readers(1, WATCHDOG) == 1
            assert publisher.wait_for_readers(2, 0.02) == 1


def test_waiting_for_readers_ends_when_the_publisher_is_closed(shm: Place) -> None:
    publisher = shm.publisher("lab/closed", rate=10)
    there: list[int] = []
    waiter = threading.Thread(target=lambda: there.append(publisher.wait_for_readers()))
    waiter.start()
    publisher.close()
    waiter.join(WATCHDOG)
    # Closed before it began to wait it raises, and there is nothing in the list.
    assert not waiter.is_alive() and there in ([], [0])


def test_times_that_go_back_begin_a_new_epoch_or_are_refused(shm: Place) -> None:
    now = tc.now_ns()
    hour = 3_600_000_000_000
    subscriber = tc.Subscriber("lab/back", timeout=WATCHDOG, bus=shm.readers)
    with shm.publisher("lab/back", dtype="f4", rate=1_000) as publisher:
        publisher.send(np.zeros(200, "f4"), t0_ns=now)
        first = publisher.epoch
        publisher.send(np.ones(200, "f4"), t0_ns=now - hour)
        assert (publisher.epoch > first, publisher.next_index) == (True, 200)
        assert publisher.begin_anew()["samples"]["numbered"] == 200
        assert publisher.next_index == 0
        publisher.send(np.ones(100, "f4"), t0_ns=now)
    accounts = subscriber.close()
    assert [account.delivered for account in accounts] == [200, 200, 100]
    with shm.publisher("lab/own", rate=100, own_times=True) as publisher:
        with pytest.raises(tc.PublishError, match="3600s before"):
            publisher.send([1.0, 2.0, 3.0], times=[now, now + 1, now - hour + 1])
        assert publisher.next_index == 0


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (np.array(["2025-01-01", "NaT"], "M8[ns]"), "NaT"),
        (np.array(["3000-01-01", "3000-01-02"], "M8[s]"), "1678 to 2262"),
        (np.array([1, 2**63 + 5], "u8"), "1678 to 2262"),
    ],
)
def test_times_that_cannot_be_told_are_refused(shm: Place, times: Any, said: str) -> None:
    with shm.publisher("lab/own", rate=100, own_times=True) as publisher:
        with pytest.raises(tc.ConfigError, match=said):
            publisher.send([1.0, 2.0], times=times)
        assert publisher.next_index == 0


def test_a_hole_ends_where_positions_do(shm: Place) -> None:
    with shm.publisher("lab/skipped", {"a": "V", "b": "V"}, rate=1_000) as publisher:
        for samples in (2**61 + 1, 2**64 - 1):
            with pytest.raises(tc.ConfigError, match=f"a hole of {samples} samples is longer than an epoch can be"):
                publisher.skip(samples)
        publisher.skip(2**61)
        assert publisher.next_index == 2**61
        with pytest.raises(tc.ConfigError, match="begin a new epoch"):
            publisher.skip(1)
