"""Rows of a growing CSV file, whatever parts its bytes arrive in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tallycast.bridges._csv_tail import CsvTail, TableError, TableOptions

F8 = np.dtype("f8")


def rows_of(text: bytes, piece: int, **options: Any) -> tuple[list[Any], list[int], list[str]]:
    tail = CsvTail(TableOptions(options.pop("dtype", F8), **options))
    values: list[Any] = []
    times: list[int] = []
    refused: list[str] = []
    for first in range(0, len(text), piece):
        rows = tail.feed(text[first : first + piece])
        if rows is not None:
            values += rows.values.tolist()
            times += [] if rows.times_ns is None else rows.times_ns.tolist()
            refused += [why for _, why in rows.refused]
    return values, times, refused


TABLE = b"# a run\ntime [ms],current [A],voltage (V)\n\n1790000000000,0.1,2\n1790000000000.5,-3e-7,4 # odd\n1790000000001,5,6\n"


@pytest.mark.parametrize("piece", [1, 2, 7, 1_000])
def test_rows_are_the_same_in_whatever_pieces_they_come(piece: int) -> None:
    values, times, refused = rows_of(TABLE, piece)
    assert values == [[0.1, 2.0], [-3e-7, 4.0], [5.0, 6.0]]
    assert times == [1790000000000000000, 1790000000000500000, 1790000000001000000]
    assert refused == []


def test_truncated_at_every_length_no_row_is_read_before_its_line_ends() -> None:
    whole, _, _ = rows_of(TABLE, 1_000)
    for length in range(len(TABLE) + 1):
        values, _, refused = rows_of(TABLE[:length], 1_000) if length else ([], [], [])
        assert values == whole[: len(values)] and refused == []
        tail = CsvTail(TableOptions(F8))
        tail.feed(TABLE[:length])
        assert tail.position + tail.partial_bytes == length


def test_a_header_names_channels_and_units() -> None:
    tail = CsvTail(TableOptions(F8, unit="V"))
    tail.feed(TABLE.replace(b" (V)", b""))
    assert tail.columns is not None
    assert tail.columns.channels == ((1, "current", "A"), (2, "voltage", "V")) and tail.columns.time == 0


@pytest.mark.parametrize(("line", "count"), [(b"1,2,3", 3), (b"1;2,5", 2), (b"1\t2", 2), (b"1 2  3", 3), (b"7", 1)])
def test_the_delimiter_is_what_the_first_line_has_most_of(line: bytes, count: int) -> None:
    tail = CsvTail(TableOptions(F8))
    tail.feed(line + b"\n")
    assert tail.columns is not None and tail.columns.count == count


def test_lines_that_are_no_rows_are_refused_in_their_place() -> None:
    tail = CsvTail(TableOptions(F8))
    rows = tail.feed(b"a,b\n1,2\n3\nx,4\n5,\n\xff,1\n6,7\n")
    assert rows is not None and rows.values.tolist() == [[1.0, 2.0], [6.0, 7.0]]
    assert [before for before, _ in rows.refused] == [1, 1, 1, 1]
    assert [why.split(":")[0] for _, why in rows.refused] == ["line 3", "line 4", "line 5", "line 6 is not UTF-8 text"]


def test_nan_passes_when_it_is_allowed() -> None:
    values, _, refused = rows_of(b"a,b\n1,\nnan,2\n", 100, allow_nan=True)
    assert refused == [] and np.isnan(values[0][1]) and np.isnan(values[1][0])


def test_whole_numbers_are_exact_and_have_limits() -> None:
    text = b"a\n9007199254740993\n9223372036854775807\n9223372036854775808\n1.5\n"
    values, _, refused = rows_of(text, 100, dtype=np.dtype("i8"))
    assert values == [2**53 + 1, 2**63 - 1] and len(refused) == 2


def test_columns_that_are_not_there_are_said() -> None:
    for options in ({"columns": ["c"]}, {"time": "c"}):
        with pytest.raises(TableError, match="a, b"):
            CsvTail(TableOptions(F8, **options)).feed(b"a,b\n")
    with pytest.raises(TableError, match="--time none"):
        CsvTail(TableOptions(F8)).feed(b"time\n")
    with pytest.raises(TableError, match="fortnights"):
        CsvTail(TableOptions(F8)).feed(b"t [fortnights],a\n")
