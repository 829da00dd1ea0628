"""Conversion of what users hold to samples: exact or refused, by name, masked elements as holes; without a stream."""

from __future__ import annotations

import random
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from places import Place, check_in_order
from tallycast._samples import as_samples, as_times, exact
from tallycast._schema import Channel, Schema, declared, dtype_name, stream_dtype

#: Number of random arrays of each pair of dtypes.
ROUNDS = 40


def schema(dtype: str, *channels: str) -> Schema:
    return Schema(np.dtype(dtype), Fraction(1), tuple(Channel(name=name) for name in channels))


ONE, TWO = schema("f8", "u"), schema("f8", "a", "b")
NUMBERS = [999.0, np.nan, np.inf, -1e300]


@pytest.mark.parametrize("under", NUMBERS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "?"])
def test_what_lies_under_a_mask_is_never_a_sample(dtype: str, under: float) -> None:
    stored = np.array([1.0, under, 1.0])
    block = np.ma.MaskedArray(stored, [False, True, False])
    if dtype not in ("f8", "f4"):
        with np.errstate(invalid="ignore"):
            block = np.ma.MaskedArray(stored.astype(dtype), [False, True, False])
    for form in (block, {"u": block}, block[:, np.newaxis], [*block]):
        taken = as_samples(schema(dtype, "u"), form)
        assert taken.array.tolist() == [[1], [0], [1]]
        assert taken.runs == [(0, 1, True), (1, 2, False), (2, 3, True)]


def test_masked_fields_and_rows_are_holes() -> None:
    records = np.ma.MaskedArray(np.array([(1, 2), (3, 4)], [("b", "f8"), ("a", "f8")]), [(False, False), (True, True)])
    taken = as_samples(TWO, records)
    assert taken.array.tolist() == [[2, 1], [0, 0]] and taken.runs == [(0, 1, True), (1, 2, False)]
    rows = [np.ma.MaskedArray([1.0, 2.0]), np.ma.MaskedArray([9.0, 9.0], True)]
    assert as_samples(TWO, rows).runs == [(0, 1, True), (1, 2, False)]
    assert as_samples(ONE, np.ma.MaskedArray([1.0, 2.0])).runs == []
    assert as_samples(ONE, np.ma.MaskedArray([1.0, 2.0], [False, False])).runs == []


@pytest.mark.parametrize(
    "block",
    [
        np.ma.MaskedArray([[1.0, 2.0]], [[False, True]]),
        {"a": np.ma.MaskedArray([1.0], [True]), "b": [2.0]},
    ],
)
def test_a_sample_that_is_masked_in_part_is_refused(block: Any) -> None:
    with pytest.raises(tc.ConfigError, match="sample 0 of the block is masked in part.*\npublish such channels"):
        as_samples(TWO, block)


def test_masked_samples_arrive_as_holes_and_the_others_at_their_places(place: Place) -> None:
    publisher = place.publisher("lab/masked", {"u": "V"}, "i2", rate=1_000)
    subscriber = place.joined("lab/masked", until_end=True)
    block = np.ma.MaskedArray(np.arange(10, dtype="i2"), [it in (0, 3, 4, 9) for it in range(10)])
    publisher.send(block, t0_ns=1_790_000_000_000_000_000)
    assert publisher.next_index == 10
    publisher.close()
    arrived = {
        block.first_index + at: (int(value), int(t_ns))
        for block in subscriber
        for at, (value, t_ns) in enumerate(zip(block.array[:, 0], block.times))
    }
    there = [1, 2, 5, 6, 7, 8]
    assert arrived == {index: (index, 1_790_000_000_000_000_000 + index * 1_000_000) for index in there}
    account = check_in_order(subscriber.close(), len(there))
    assert account.lost == {"source": 4}


def test_masked_samples_without_a_time_keep_the_distance_of_the_rate(shm: Place) -> None:
    publisher = shm.publisher("lab/masked", {"u": "V"}, "f8", rate=10)
    subscriber = shm.joined("lab/masked", until_end=True)
    publisher.send(np.ma.MaskedArray([1.0, 2.0, 3.0, 4.0], [False, True, True, False]))
    publisher.close()
    times = np.concatenate([block.times for block in subscriber])
    assert np.diff(times).tolist() == [300_000_000]
    subscriber.close()


def test_own_times_of_masked_samples_are_left_out(shm: Place) -> None:
    publisher = shm.publisher("lab/masked", {"u": "V"}, "f8", rate=10, own_times=True)
    subscriber = shm.joined("lab/masked", until_end=True)
    t0 = 1_790_000_000_000_000_000
    block = np.ma.MaskedArray([1.0, 2.0, 3.0], [False, True, False])
    with pytest.raises(tc.ConfigError, match="3 samples have 4 times"):
        publisher.send(block, times=[t0, t0 + 5, t0 + 7, t0 + 8])
    publisher.send(block, times=[t0, t0 + 5, t0 + 7])
    publisher.close()
    assert np.concatenate([block.times for block in subscriber]).tolist() == [t0, t0 + 7]
    subscriber.close()


def tables(data: dict[str, list[Any]]) -> dict[str, Any]:
    """Returns a table of every package that is here."""
    made: dict[str, Any] = {"mapping": {name: np.ma.masked_invalid(np.array(of, "f8")) for name, of in data.items()}}
    for package in ("pandas", "polars", "pyarrow"):
        module = pytest.importorskip(package)
        made[package] = module.table(data) if package == "pyarrow" else module.DataFrame(data)
    made["pyarrow batch"] = made["pyarrow"].to_batches()[0]
    made["pandas nullable"] = made["pandas"].convert_dtypes()
    return made


def test_tables_go_by_name_in_any_order() -> None:
    for package, table in tables({"b": [10.5, 20.5], "a": [1.5, 2.5]}).items():
        taken = as_samples(TWO, table)
        assert taken.array.tolist() == [[1.5, 10.5], [2.5, 20.5]] and taken.runs == [], package


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "b is missing"),
        (["a", "b", "c"], "c is unknown"),
        (["b", "A"], "a is missing, A is unknown"),
    ],
)
def test_tables_with_other_columns_are_refused(names: list[str], text: str) -> None:
    for package, table in tables({name: [1.0, 2.0] for name in names}).items():
        with pytest.raises(tc.ConfigError, match=text):
            as_samples(TWO, table)


def test_columns_of_one_name_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(tc.ConfigError, match="two columns `a`"):
        as_samples(TWO, pandas.DataFrame([[1, 2]], columns=["a", "a"]))


def test_nulls_are_holes_and_integers_stay_exact() -> None:
    pandas, polars, arrow = (pytest.importorskip(it) for it in ("pandas", "polars", "pyarrow"))
    big = 2**63 - 1
    whole = schema("i8", "n")
    for table in (
        pandas.DataFrame({"n": pandas.array([1, None, big], dtype="Int64")}),
        pandas.DataFrame({"n": pandas.array([1, None, big], dtype="int64[pyarrow]")}),
        polars.DataFrame({"n": [1, None, big]}),
        arrow.table({"n": [1, None, big]}),
        polars.Series("n", [1, None, big]),
        pandas.Series([1, None, big], dtype="Int64"),
        arrow.array([1, None, big]),
    ):
        taken = as_samples(whole, table)
        assert taken.array[[0, 2], 0].tolist() == [1, big] and taken.runs[1] == (1, 2, False), type(table)
    # Among floats NaN is a number like others, and null is not.
    assert as_samples(ONE, pandas.DataFrame({"u": [1.0, np.nan]})).runs == []
    assert as_samples(ONE, polars.DataFrame({"u": [1.0, float("nan"), None]})).runs == [(0, 2, True), (2, 3, False)]


def test_lists_in_columns_are_channels_with_a_shape() -> None:
    polars, arrow = (pytest.importorskip(it) for it in ("polars", "pyarrow"))
    image = Schema(np.dtype("i4"), Fraction(1), (Channel(name="image", shape=(2,)),))
    rows = [[1, 2], [3, 4]]
    for table in (
        polars.DataFrame({"image": rows}),
        polars.DataFrame({"image": rows}, schema={"image": polars.Array(polars.Int32, 2)}),
        arrow.table({"image": arrow.array(rows, arrow.list_(arrow.int32(), 2))}),
    ):
        assert as_samples(image, table).array.tolist() == rows, table


def test_tables_of_which_only_the_order_is_known_are_refused() -> None:
    class Strange:
        columns = ("a", "b")

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.zeros((2, 2))

    with pytest.raises(tc.ConfigError, match="Strange is not known\nsend a mapping"):
        as_samples(TWO, Strange())


@pytest.mark.parametrize(
    ("dtype", "block", "text"),
    [
        ("f8", np.array([2**53 + 1]), "has no 9007199254740993: integers are exact up to 2\\^53"),
        ("f8", np.array([-(2**53) - 1]), "has no -9007199254740993"),
        ("f8", np.array([2**64 - 1], "u8"), "has no 18446744073709551615"),
        ("f4", np.array([2**24 + 1], "i4"), "has no 16777217: integers are exact up to 2\\^24"),
        ("f4", np.array([1e300]), "1e\\+300 goes beyond its range"),
        ("f4", np.array([1, -1e39]), "-1e\\+39 goes beyond its range"),
        ("c8", np.array([1e300 + 1j]), "goes beyond its range"),
        ("f8", [2**53 + 1, 0.5], "no dtype holds both 9007199254740993"),
        ("f8", [10**400], "not object"),
        ("i8", [2**63], "9223372036854775808 to 9223372036854775808 go beyond"),
        ("i4", [1.0], "int32, not float64"),
        ("f8", [[1.0], [1.0, 2.0]], "different shapes"),
        ("f8", ["1"], "not <U1"),
        ("f8", [None], "not object"),
        ("f8", np.array(["2026-01-01"], "M8[ns]"), "not datetime64"),
    ],
)
def test_numbers_that_a_dtype_does_not_hold_are_refused(dtype: str, block: Any, text: str) -> None:
    with pytest.raises(tc.ConfigError, match=text):
        as_samples(schema(dtype, "u"), block)


@pytest.mark.parametrize(
    ("dtype", "block"),
    [
        ("f8", np.array([2**53, -(2**53), 2**53 + 2, 2**62, -(2**63)])),
        ("f8", np.array([2**63], "u8")),
        ("f4", np.array([2**24, 2**30, -(2**31)], "i4")),
        ("f4", np.array([np.inf, -np.inf, 3.4e38])),
        ("f4", np.array([0.5, 65504.0], "f2")),
    ],
)
def test_numbers_that_a_dtype_holds_are_taken(dtype: str, block: Any) -> None:
    made = as_samples(schema(dtype, "u"), block).array[:, 0]
    assert [float(it) for it in made] == pytest.approx([float(it) for it in block], rel=1e-7)
    if block.dtype.kind in "iu":
        assert [int(it) for it in made] == [int(it) for it in block]


@pytest.mark.parametrize("have", ["i1", "i8", "u8", "i4", "f2", "f4", "f8", "?", "c16"])
@pytest.mark.parametrize("want", ["i1", "u2", "i8", "u8", "f4", "f8", "c8", "?"])
def test_a_conversion_changes_no_number_but_the_last_digits_of_floats(have: str, want: str) -> None:
    seed = random.randrange(2**32)
    numbers = np.random.default_rng(seed)
    for _ in range(ROUNDS):
        raw = numbers.bytes(np.dtype(have).itemsize * 3)
        given = np.frombuffer(raw, "u1" if have == "?" else have) % 2 == 1 if have == "?" else np.frombuffer(raw, have)
        if given.dtype.kind in "iu":
            # Small ones as well as those of all bits.
            given = given >> numbers.integers(0, 8 * given.itemsize, dtype=given.dtype)
        try:
            made = exact(given, np.dtype(want))
        except tc.ConfigError:
            continue
        assert made.dtype == np.dtype(want), f"seed {seed}"
        for before, after in zip(given.tolist(), made.tolist()):
            if isinstance(before, (int, bool)):
                assert before == after, f"{before!r} became {after!r}, seed {seed}"
            else:
                both_nan = before != before and after != after
                assert both_nan or np.isinf(before) == np.isinf(after), f"{before!r} became {after!r}, seed {seed}"


@pytest.mark.parametrize(
    "block",
    [
        [np.int64(2**53 + 1), 0.5],
        [np.uint64(2**64 - 1), np.int64(-1)],
        [2**53 + 1, 0.5j],
        [[np.int64(-(2**53) - 1)], [0.5]],
        [np.ma.MaskedArray(2**53 + 1), np.ma.MaskedArray(0.5)],
    ],
)
def test_integers_beside_floats_in_a_list_are_refused_where_they_would_be_rounded(block: Any) -> None:
    with pytest.raises(tc.ConfigError, match="no dtype holds both -?[0-9]+ and the other numbers exactly"):
        as_samples(schema("c16" if 0.5j in block else "f8", "u"), block)


def test_integers_beside_floats_in_a_list_are_taken_where_they_are_exact() -> None:
    for block in ([np.int64(2**53), 0.5], [2**60, 0.5], [np.ma.MaskedArray(2**60), np.ma.masked, 0.5]):
        assert as_samples(ONE, block).array[0, 0] == int(block[0])


@pytest.mark.filterwarnings("error")
def test_one_number_alone_is_converted_without_a_warning() -> None:
    assert exact(np.asarray(np.int64(0)), np.dtype("f8")) == 0.0


def test_half_floats_of_either_byte_order_are_a_stream_of_f4() -> None:
    for code in ("<f2", ">f2"):
        assert declared(None, code)[0] == dtype_name(np.dtype(code)) == "f4"
        assert stream_dtype(np.dtype(code)) == np.dtype("<f4")
        fields = declared(None, np.dtype([("a", code), ("b", ">i2")]))
        assert fields[0] == "f4" and [it.name for it in fields[1]] == ["a", "b"]


def test_half_floats_are_a_stream_of_f4() -> None:
    assert declared(None, "f2")[0] == "f4" and declared(None, np.float16)[0] == "f4"
    dtype, _, labels = declared(None, [("a", "f2"), ("b", "i2")])
    assert dtype == "f4" and "numpy.fields" in labels
    for refused in ("g", "G", "S3", "M8[ns]", "O"):
        with pytest.raises(tc.ConfigError, match="unsupported dtype"):
            declared(None, refused)


def test_times_are_taken_as_people_hold_them() -> None:
    t_ns = 1_795_292_100_500_000_000
    moment = datetime(2026, 11, 21, 20, 15, 0, 500_000, timezone.utc)
    for times in (
        [t_ns],
        np.array([t_ns], "u8"),
        np.array([t_ns], "M8[ns]"),
        ["2026-11-21T20:15:00.5Z"],
        ["2026-11-21 21:15:00.5+01:00"],
        [moment],
    ):
        assert as_times(times, None).tolist() == [t_ns], times
    pandas = pytest.importorskip("pandas")
    for index in (pandas.DatetimeIndex([moment]), pandas.DatetimeIndex([moment]).tz_localize(None), pandas.Series([moment])):
        assert as_times(index, None).tolist() == [t_ns], index


@pytest.mark.parametrize(
    "times",
    [
        ["2026-11-21T20:15:00"],
        ["+10s"],
        ["noon"],
        [datetime(2026, 11, 21)],
        [1.5],
        [[1]],
        [None],
        np.array(["NaT"], "M8[ns]"),
        np.array(["3000-01-01"], "M8[s]"),
        np.array([2**63], "u8"),
        np.ma.MaskedArray([1], [True]),
    ],
)
def test_times_that_are_none_are_refused(times: Any) -> None:
    with pytest.raises(tc.ConfigError):
        as_times(times, None)
