"""The bridge for files that grow, and the one for standard input: CSV and HDF5 with SWMR, bit by bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pytest

import tallycast as tc
from bridge_peers import PACKAGE, Bridge, Reader, holes, new_bus
from places import WATCHDOG, command, until

T0_NS = 1_790_000_000_000_000_000
PERIOD_NS = 10_000_000
HEADER = "time_ns,u [V],i [A]\n"


class Table:
    """A CSV file that the test writes, and what has to arrive of it."""

    def __init__(self, path: Path, random: np.random.Generator) -> None:
        self.path, self._random = path, random
        self.truth: list[tuple[list[float], int] | None] = []
        self._file: TextIO | None = None

    def create(self, header: str = HEADER) -> Table:
        self._file = open(self.path, "w", encoding="utf-8")
        return self.write(header)

    def write(self, text: str) -> Table:
        assert self._file is not None
        self._file.write(text)
        self._file.flush()
        return self

    def row(self) -> str:
        values, time_ns = self._random.standard_normal(2).tolist(), T0_NS + len(self.truth) * PERIOD_NS
        self.truth.append((values, time_ns))
        return f"{time_ns},{values[0]!r},{values[1]!r}\n"

    def rows(self, count: int) -> Table:
        return self.write("".join(self.row() for _ in range(count)))

    def lose(self, count: int) -> None:
        self.truth += [None] * count

    def check(self, samples: dict[int, tuple[Any, int]], account: Any, offset: int = 0) -> None:
        first = account["elements"]["first"] + offset
        expected = {index: it for index, it in enumerate(self.truth) if it is not None and index >= first}
        assert {index + offset: (value.tolist(), t) for index, (value, t) in samples.items()} == expected
        assert account.delivered == 2 * len(expected)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "log.csv", np.random.default_rng(11))


def joined(table: Table, reader: Reader, epoch: int = 0, offset: int = 0) -> None:
    """Appends rows until the reader has some, and all of them."""

    def has_come() -> bool:
        table.rows(1)
        return bool(reader.samples_of("lab/log", epoch))

    until(has_come)
    reader.wait_for("lab/log", len(table.truth) - 1 - offset, epoch)


def follow(table: Table, bus: str, *options: str) -> Bridge:
    return Bridge("files", bus, f"{table.path}=lab/log", "--wait=0", *options)


def test_rows_arrive_bit_by_bit_with_their_own_times_and_half_a_line_waits(table: Table) -> None:
    bus = new_bus()
    table.create().rows(5)
    with Reader(bus, "lab/*") as reader, follow(table, bus) as bridge:
        joined(table, reader)
        text = table.row()
        table.write(text[:20])
        table.write(text[20:])
        table.rows(200)
        reader.wait_for("lab/log", len(table.truth) - 1)
        table.write("17000")
        counters = bridge.end()[f"in {table.path}"]
        account = reader.end()["lab/log"][0]
        table.check(reader.samples_of("lab/log"), account)
    assert holes(account) == [] and counters["samples"] == len(table.truth) and counters["partial_line_bytes"] == 5
    assert [(it.name, it.unit) for it in reader.schemas["lab/log"][0].channels] == [("u", "V"), ("i", "A")]


def test_a_bridge_with_a_duration_ends_by_itself_with_its_account(table: Table) -> None:
    table.create().rows(5)
    with follow(table, new_bus(), "--duration=200ms") as bridge:
        assert bridge.process.wait(WATCHDOG) == 0
        assert bridge.end()[f"in {table.path}"]["samples"] == 5


def test_a_file_is_laid_out_as_a_complete_one_and_the_bridge_says_how(table: Table) -> None:
    bus = new_bus()
    table.create('\ufeff"Logger, 7";\n\ntime_ns;"u; #1 (V)";TC(1);\n')
    comma = table.row
    table.row = lambda: comma().replace(",", ";").replace(".", ",").replace("\n", ";\n")  # type: ignore[method-assign]
    with Reader(bus, "lab/*") as reader, follow(table, bus) as bridge:
        joined(table, reader)
        assert "semicolons; header row 3" in bridge.wait_for("decided")["text"]
        bridge.end()
        table.check(reader.samples_of("lab/log"), reader.end()["lab/log"][0])
    assert [(it.name, it.unit) for it in reader.schemas["lab/log"][0].channels] == [("u; #1", "V"), ("TC(1)", "")]
    assert len(bridge.of("decided")) == 1


def test_rows_that_come_after_the_rename_are_read_before_the_next_file(table: Table, tmp_path: Path) -> None:
    bus = new_bus()
    table.create()
    with Reader(bus, "lab/*") as reader, follow(table, bus) as bridge:
        joined(table, reader)
        old = table._file
        table.path.rename(tmp_path / "log.csv.1")
        table.create()
        new, table._file = table._file, old
        table.rows(3)
        reader.wait_for("lab/log", len(table.truth) - 1)
        table._file = new
        table.rows(3)
        reader.wait_for("lab/log", len(table.truth) - 1)
        counters = bridge.end()[f"in {table.path}"]
        account = reader.end()["lab/log"][0]
        table.check(reader.samples_of("lab/log"), account)
    assert holes(account) == [] and (counters["rotations"], counters["uncounted"]) == (1, 0)


def test_rows_that_are_missing_at_a_rate_and_rows_that_are_none_are_holes(table: Table) -> None:
    bus = new_bus()
    table.create()
    with Reader(bus, "lab/*") as reader, follow(table, bus, "--rate=100") as bridge:
        joined(table, reader)
        planted = len(table.truth)
        table.lose(3)
        table.rows(2).write("1,2\n")
        table.lose(1)
        table.rows(2)
        reader.wait_for("lab/log", len(table.truth) - 1)
        counters = bridge.end()[f"in {table.path}"]
        account = reader.end()["lab/log"][0]
        table.check(reader.samples_of("lab/log"), account)
    assert holes(account) == [(planted, 3), (planted + 5, 1)]
    assert counters["skipped"]["missed"] + counters["skipped"].get("refused", 0) == 4


def test_a_file_that_is_cut_off_leaves_one_mark_and_the_word_that_nobody_counted(table: Table) -> None:
    bus = new_bus()
    table.create()
    with Reader(bus, "lab/*") as reader, follow(table, bus) as bridge:
        joined(table, reader)
        planted = len(table.truth)
        os.truncate(table.path, 0)
        bridge.wait_for("away")
        table.lose(1)
        table.create().rows(3)
        reader.wait_for("lab/log", len(table.truth) - 1)
        counters = bridge.end()[f"in {table.path}"]
        account = reader.end()["lab/log"][0]
        table.check(reader.samples_of("lab/log"), account)
    assert holes(account) == [(planted, 1)]
    assert (counters["truncations"], counters["uncounted"], counters["outages"], counters["lives"]) == (1, 1, 1, 1)


def test_a_file_that_is_cut_off_and_grown_again_meanwhile_is_seen_through(table: Table) -> None:
    bus = new_bus()
    table.create()
    with Reader(bus, "lab/*") as reader, follow(table, bus) as bridge:
        joined(table, reader)
        size = table.path.stat().st_size
        # Atomic for readers: larger than before, and with other content.
        table.lose(1)
        text = HEADER
        while len(text) <= size:
            text += table.row()
        table._file = open(table.path, "r+", encoding="utf-8")
        table.write(text)
        table.rows(1)
        reader.wait_for("lab/log", len(table.truth) - 1)
        counters = bridge.end()[f"in {table.path}"]
        account = reader.end()["lab/log"][0]
        table.check(reader.samples_of("lab/log"), account)
    assert counters["truncations"] == 1


def test_a_file_that_is_rotated_loses_nothing(table: Table, tmp_path: Path) -> None:
    bus = new_bus()
    table.create()
    with Reader(bus, "lab/*") as reader, follow(table, bus) as bridge:
        joined(table, reader)
        table.path.rename(tmp_path / "log.csv.1")
        table.rows(3)
        table.create().rows(3)
        reader.wait_for("lab/log", len(table.truth) - 1)
        counters = bridge.end()[f"in {table.path}"]
        account = reader.end()["lab/log"][0]
        table.check(reader.samples_of("lab/log"), account)
    assert holes(account) == [] and counters["rotations"] == 1 and counters["lives"] == 1 and counters["outages"] == 0


def test_another_header_after_a_rotation_is_a_new_epoch(table: Table, tmp_path: Path) -> None:
    bus = new_bus()
    table.create()
    with Reader(bus, "lab/*") as reader, follow(table, bus) as bridge:
        joined(table, reader)
        # An epoch lasts a second at least; an update that comes too early would be a hole.
        began = tc.now_ns()
        until(lambda: tc.now_ns() - began > 1_100_000_000)
        old, table.truth = table.truth, []
        table.path.rename(tmp_path / "log.csv.1")
        table.create("time_ns,x [K],y [K]\n")
        joined(table, reader, 1)
        bridge.end()
        before, after = reader.end()["lab/log"]
        table.check(reader.samples_of("lab/log", 1), after)
        table.truth = old
        table.check(reader.samples_of("lab/log", 0), before)
    assert [it.channels[0].name for it in reader.schemas["lab/log"]] == ["u", "x"]


def test_it_goes_on_where_it_ended(table: Table, tmp_path: Path) -> None:
    bus, state = new_bus(), f"--state={tmp_path / 'log.state'}"
    table.create()
    with Reader(bus, "lab/*") as reader:
        with follow(table, bus, state) as bridge:
            joined(table, reader)
            table.write("17")
            bridge.end()
        begun = len(table.truth)
        row = table.row()
        table.write("90000" + row[7:]) if row.startswith("1790000") else pytest.fail(row)
        table.rows(3)
        with follow(table, bus, state) as bridge:
            bridge.wait_for("began")
            joined(table, reader, 1, begun)
            counters = bridge.end()[f"in {table.path}"]
        first, second = reader.end()["lab/log"]
        whole = table.truth
        table.check(reader.samples_of("lab/log", 1), second, begun)
        table.truth = whole[:begun]
        table.check(reader.samples_of("lab/log", 0), first)
    assert counters["samples"] == len(whole) - begun, "nothing twice, nothing left out"


def test_from_now_on_what_was_there_before_is_passed_over(table: Table) -> None:
    bus = new_bus()
    table.create().rows(1_000)
    with Reader(bus, "lab/*") as reader, follow(table, bus, "--begin=now") as bridge:
        until(lambda: table.rows(1) and bridge.of("began"))
        until(lambda: table.rows(1) and reader.samples_of("lab/log"))
        until(lambda: max(t for _, t in reader.samples_of("lab/log").values()) == table.truth[-1][1])  # type: ignore[index]
        counters = bridge.end()[f"in {table.path}"]
        reader.end()
    assert 0 < counters["samples"] <= len(table.truth) - 1_000
    begun = len(table.truth) - counters["samples"]
    assert all(
        (value.tolist(), t) == table.truth[begun + index] for index, (value, t) in reader.samples_of("lab/log").items()
    )


def test_a_file_that_is_not_there_yet_is_waited_for(table: Table) -> None:
    bus = new_bus()
    with Reader(bus, "lab/*") as reader, follow(table, bus) as bridge:
        assert "waiting" in bridge.wait_for("away")["text"]
        table.create()
        joined(table, reader)
        bridge.end()
        table.check(reader.samples_of("lab/log"), reader.end()["lab/log"][0])


def test_columns_that_are_not_there_end_it_in_order(table: Table) -> None:
    table.create().rows(1)
    bridge = follow(table, new_bus(), "--columns=w")
    assert bridge.process.wait(60) == 2


#: Values and times encode the row's number, counted from the given one.
WRITER = """
import sys, numpy as np, h5py
begin = int(sys.argv[3])
file = h5py.File(sys.argv[1], "w", libver="latest")
data = file.create_dataset("entry/data", shape=(0, 3), maxshape=(None, 3), chunks=(64, 3), dtype=sys.argv[2])
times = file.create_dataset("entry/time", shape=(0,), maxshape=(None,), chunks=(64,), dtype="i8")
data.attrs["units"] = "mV"
file.swmr_mode = True
print("ready", flush=True)
for line in sys.stdin:
    count = int(line)
    first = len(data)
    data.resize(first + count, axis=0)
    number = begin + first
    values = np.arange(3 * number, 3 * (number + count)).reshape(count, 3)
    data[first:] = (values * 0.1).astype(data.dtype) if data.dtype.kind == "f" else values % 251
    data.flush()
    times.resize(first + count, axis=0)
    times[first:] = 1790000000000000000 + np.arange(number, number + count) * 1000003
    times.flush()
    print("done", flush=True)
"""


class Hdf5Writer:
    """The single writer of SWMR, as a separate process."""

    def __init__(self, path: Path, dtype: str, begin: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), dtype, str(begin)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.rows = 0
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def append(self, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        assert self._answer() == "done"
        self.rows += count

    def end(self) -> None:
        """Lets the writer close its file."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(WATCHDOG)

    def __enter__(self) -> Hdf5Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8"])
def test_rows_of_a_growing_dataset_arrive_bit_by_bit(dtype: str, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    bus, path, state = new_bus(), tmp_path / "scan.h5", tmp_path / "scan.state"
    options = (f"{path}:/entry/data=lab/scan", "--time=/entry/time", "--time-unit=ns", "--wait=0", f"--state={state}")
    with Reader(bus, "lab/*") as reader, Hdf5Writer(path, dtype) as writer:
        ended = []
        for epoch in range(2):
            with Bridge("files", bus, *options) as bridge:
                begun = ended[-1] if ended else 0
                until(lambda: writer.append(7) or reader.samples_of("lab/scan", epoch))
                writer.append(1_000)
                reader.wait_for("lab/scan", writer.rows - begun - 1, epoch)
                counters = bridge.end()[f"in {path}:/entry/data"]
                assert counters["rows"] == writer.rows and counters["samples"] == writer.rows - begun
                ended.append(writer.rows)
        accounts = reader.end()["lab/scan"]
    for epoch, begun in enumerate([0, ended[0]]):
        samples = reader.samples_of("lab/scan", epoch)
        assert holes(accounts[epoch]) == [] and accounts[epoch].delivered == 3 * len(samples)
        for index, (value, t_ns) in samples.items():
            row = np.arange(3 * (begun + index), 3 * (begun + index + 1))
            expected = (row * 0.1).astype(dtype) if dtype[0] == "f" else (row % 251).astype(dtype)
            assert value.tobytes() == expected.tobytes() and t_ns == 1790000000000000000 + (begun + index) * 1000003
    assert reader.schemas["lab/scan"][0].channels[0].unit == "mV" and reader.schemas["lab/scan"][0].channels[
        0
    ].shape == (3,)


SCAN = "/entry/data"


def follow_scan(path: Path, bus: str) -> Bridge:
    return Bridge("files", bus, f"{path}:{SCAN}=lab/scan", "--time=/entry/time", "--time-unit=ns", "--wait=0")


def scan_joined(writer: Hdf5Writer, reader: Reader) -> int:
    """Appends rows until the reader has all of them; returns how many there are."""
    until(lambda: writer.append(1) or reader.samples_of("lab/scan"))
    reader.wait_for("lab/scan", writer.rows - 1)
    return writer.rows


def rows_of(reader: Reader, dtype: str = "f8") -> dict[int, int]:
    """Returns, by index in the stream, which row of the writers each sample is; bit by bit."""
    found = {}
    for index, (value, t_ns) in reader.samples_of("lab/scan").items():
        row, rest = divmod(t_ns - T0_NS, 1_000_003)
        assert rest == 0 and value.tobytes() == (np.arange(3 * row, 3 * row + 3) * 0.1).astype(dtype).tobytes()
        found[index] = row
    return found


def test_a_dataset_whose_file_is_replaced_is_read_to_its_end_and_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    bus, path = new_bus(), tmp_path / "scan.h5"
    with Reader(bus, "lab/*") as reader, Hdf5Writer(path, "f8") as writer, follow_scan(path, bus) as bridge:
        rows = scan_joined(writer, reader)
        with Hdf5Writer(tmp_path / "next.h5", "f8", rows + 50) as other:
            other.append(20)
            writer.append(50)
            os.replace(tmp_path / "next.h5", path)
            reader.wait_for("lab/scan", rows + 69)
            assert "read to its end" in bridge.wait_for("replaced")["text"]
            other.append(5)
            reader.wait_for("lab/scan", rows + 74)
        counters = bridge.end()[f"in {path}:{SCAN}"]
        account = reader.end()["lab/scan"][0]
    assert all(index == row for index, row in rows_of(reader).items()) and holes(account) == []
    assert (counters["replaced"], counters["rewritten"], counters["shrunk"]) == (1, 0, 0)
    assert (counters["outages"], counters["lives"], counters["samples"], counters["rows"]) == (0, 1, rows + 75, 25)


@pytest.mark.parametrize("fewer", [True, False], ids=["fewer rows", "more rows"])
def test_a_dataset_that_is_written_anew_in_place_leaves_one_mark(fewer: bool, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    bus, path = new_bus(), tmp_path / "scan.h5"
    with Reader(bus, "lab/*") as reader, Hdf5Writer(path, "f8") as writer, follow_scan(path, bus) as bridge:
        writer.append(10)
        planted = scan_joined(writer, reader)
        # The writer keeps its file open; another one cuts it off below it.
        with Hdf5Writer(path, "f8", 1_000) as other:
            other.append(5 if fewer else planted + 200)
            reader.wait_for("lab/scan", planted + other.rows)
            other.append(3)
            reader.wait_for("lab/scan", planted + other.rows)
            counters = bridge.end()[f"in {path}:{SCAN}"]
            account = reader.end()["lab/scan"][0]
    rows = rows_of(reader)
    assert all(row == (index if index < planted else index - planted - 1 + 1_000) for index, row in rows.items())
    assert holes(account) == [(planted, 1)] and max(rows) == planted + other.rows
    assert (counters["uncounted"], counters["outages"], counters["lives"]) == (1, 1, 1)
    assert (counters["replaced"], counters["rewritten"], counters["shrunk"]) == (0, 1, 0)


def test_a_dataset_that_shrinks_leaves_one_mark_and_goes_on_with_what_comes(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    bus, path = new_bus(), tmp_path / "scan.h5"
    with Reader(bus, "lab/*") as reader, follow_scan(path, bus) as bridge:
        with Hdf5Writer(path, "f8") as writer:
            writer.append(10)
            planted = scan_joined(writer, reader)
            writer.end()
        with h5py.File(path, "r+", libver="latest") as file:
            for part in ("data", "time"):
                file[f"entry/{part}"].resize(planted - 4, axis=0)
        assert f"shrank from {planted} to {planted - 4} rows" in bridge.wait_for("shrunk")["text"]
        with h5py.File(path, "r+", libver="latest") as file:
            file.swmr_mode = True
            numbers = np.arange(planted, planted + 6)
            for part, rows in (
                ("data", np.arange(3 * planted, 3 * planted + 18).reshape(6, 3) * 0.1),
                ("time", T0_NS + numbers * 1_000_003),
            ):
                file[f"entry/{part}"].resize(planted + 2, axis=0)
                file[f"entry/{part}"][planted - 4 :] = rows
                file[f"entry/{part}"].flush()
            reader.wait_for("lab/scan", planted + 6)
        counters = bridge.end()[f"in {path}:{SCAN}"]
        account = reader.end()["lab/scan"][0]
    assert all(row == (index if index < planted else index - 1) for index, row in rows_of(reader).items())
    assert holes(account) == [(planted, 1)] and (counters["shrunk"], counters["uncounted"]) == (1, 1)


def test_a_state_that_is_none_is_said_and_nothing_breaks(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    state, csv, scan = tmp_path / "state", tmp_path / "log.csv", tmp_path / "scan.h5"
    csv.write_text("u\n1\n")
    with Hdf5Writer(scan, "f8"):
        for words in ("no JSON", "{}"):
            state.write_text(words)
            for file in (csv, f"{scan}:{SCAN}"):
                with Bridge("files", new_bus(), f"{file}=lab/a", f"--state={state}") as bridge:
                    assert bridge.process.wait(WATCHDOG) == 2
                    assert all(it["balanced"] for it in bridge.of("bridged"))


def test_sound_on_standard_input_is_a_stream_and_its_account_closes() -> None:
    bus = new_bus()
    sound = np.random.default_rng(1).integers(-(2**15), 2**15, (48_000, 2)).astype("<i2")
    env = {**os.environ, "PYTHONPATH": PACKAGE, "TALLYCAST_BIN": command(), "TALLYCAST_BUS": bus}
    line = [
        sys.executable,
        "-m",
        "tallycast.bridges.stdin",
        "--dtype",
        "i16",
        "--channels",
        "2",
        "--rate",
        "48k",
        "lab/sound",
        "--json",
    ]
    with Reader(bus, "lab/*") as reader:
        process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        output, _ = process.communicate(sound.tobytes(), timeout=120)
        assert process.returncode == 0
        reader.wait_for("lab/sound", len(sound) - 1)
        account = reader.end()["lab/sound"][0]
    totals = json.loads(output.splitlines()[-1])
    assert totals["event"] == "totals" and totals["samples"]["numbered"] == len(sound)
    samples = reader.samples_of("lab/sound")
    first = account["elements"]["first"]
    assert sorted(samples) == list(range(first, len(sound))) and account.delivered == 2 * len(samples) > 0
    assert all(value.tolist() == sound[index].tolist() for index, (value, _) in samples.items())


def in_place(file: Any, number: int, count: int, resized: bool) -> None:
    """Writes rows into places that are there, or makes these first."""
    data, times = file["data"], file["time"]
    if resized:
        for part in (data, times):
            part.resize(number + count, axis=0)
            part.flush()
    rows = slice(number, number + count)
    data[rows] = np.arange(number, number + count) % 5 * 1.0
    times[rows] = T0_NS + np.arange(number, number + count) * 1_000_003
    for part in (data, times):
        part.flush()


@pytest.mark.parametrize("timed", [True, False], ids=["times", "no times"])
@pytest.mark.parametrize("resized", [True, False], ids=["enlarged first", "full size"])
def test_rows_with_a_place_and_no_content_wait_for_it(resized: bool, timed: bool, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    bus, path = new_bus(), tmp_path / "placed.h5"
    size = 0 if resized else 60
    options = ["--time=/time", "--time-unit=ns"] if timed else ["--rate=100"]
    with Reader(bus, "lab/*") as reader, h5py.File(path, "w", libver="latest") as file:
        for name, dtype in (("data", "f8"), ("time", "i8")):
            file.create_dataset(name, (size,), maxshape=(None,), chunks=(16,), dtype=dtype)
        file.swmr_mode = True
        with Bridge("files", bus, f"{path}:/data=lab/placed", "--wait=0", *options) as bridge:
            for number in range(0, 50, 7):
                in_place(file, number, 7, resized)
                # The last row that holds 0 waits for the one behind it where no time shows that it is there.
                newest = number + 6 if timed or (number + 6) % 5 else number + 5
                reader.wait_for("lab/placed", newest)
            counters = bridge.end()[f"in {path}:/data"]
    samples = reader.samples_of("lab/placed")
    assert {index: float(value[0]) for index, (value, _) in samples.items()} == {row: row % 5 for row in range(len(samples))}
    written = 56 if timed else 55
    assert (len(samples), counters["rewritten"], counters["lives"], counters["uncounted"]) == (written, 0, 1, 0), counters
    assert counters["unwritten"] == (56 if resized else 60) - written
    if timed:
        assert all(t_ns == T0_NS + row * 1_000_003 for row, (_, t_ns) in samples.items())


def test_half_floats_are_widened_and_other_dtypes_are_refused_by_name(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path, values = tmp_path / "dtypes.h5", np.array([0.5, -65504, 6e-8], "f2")
    with h5py.File(path, "w", libver="latest") as file:
        for dtype in ("f2", "g"):
            file.create_dataset(dtype, data=values.astype(dtype), maxshape=(None,), chunks=(16,))
    bus = new_bus()
    with Reader(bus, "lab/*") as reader, Bridge("files", bus, f"{path}:/f2=lab/half", "--rate=10", "--wait=0") as bridge:
        reader.wait_for("lab/half", 2)
        bridge.end()
    assert reader.schemas["lab/half"][0].dtype == np.dtype("f4")
    assert [float(value[0]) for value, _ in reader.samples_of("lab/half").values()] == values.tolist()
    with Bridge("files", new_bus(), f"{path}:/g=lab/long", "--rate=10", "--wait=0") as bridge:
        text = bridge.wait_for("away")["text"]
        assert "cannot be a stream: unsupported dtype" in text and "use one of int8" in text
        bridge.end()


def test_times_that_a_stream_cannot_have_are_refused_row_by_row(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "times.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("data", data=np.arange(1.0, 6.0), maxshape=(None,), chunks=(16,))
        times = [1.79e9, np.nan, 1.79e18, 1.79e9 + 1, 1.79e9 + 2]
        file.create_dataset("time", data=np.array(times), maxshape=(None,), chunks=(16,))
    bus = new_bus()
    with Reader(bus, "lab/*") as reader:
        with Bridge("files", bus, f"{path}:/data=lab/timed", "--time=/time", "--wait=0") as bridge:
            reader.wait_for("lab/timed", 4)
            counters = bridge.end()[f"in {path}:/data"]
    assert counters["refused"] == 2 and counters["samples"] == 3
    assert {index: float(value[0]) for index, (value, _) in reader.samples_of("lab/timed").items()} == {0: 1, 3: 4, 4: 5}
