"""Cutting an operator's input: windows, gaps, masks. No stream is needed for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tallycast as tc

from tallycast._chunks import MAX_WINDOW_BYTES, Chunk, Cutter, Hole
from tallycast._operator import rows

RATE = Fraction(1_000)


@dataclass
class Block:
    """Required parts of a block: samples whose values are their indices."""

    first_index: int
    samples: int
    missing: Any = None
    gaps: list[Any] = field(default_factory=list)
    stream: str = "lab/probe"
    epoch: str = "1"
    rate: Fraction = RATE
    schema: tc.Schema = tc.Schema(np.dtype("f8"), RATE, (tc.Channel(name="a"), tc.Channel("V", scale=2.0, name="b")))

    @property
    def array(self) -> Any:
        indices = np.arange(self.first_index, self.first_index + self.samples, dtype=np.float64)
        return np.stack([indices, -indices], axis=1)

    @property
    def times(self) -> Any:
        return np.arange(self.first_index, self.first_index + self.samples, dtype=np.int64) * 1_000_000

    @property
    def t0_ns(self) -> int:
        return self.first_index * 1_000_000


def fed(cutter: Cutter, *blocks: Block) -> list[Any]:
    """Returns what comes of the blocks: holes by their samples, chunks by their indices and what is missing of them."""
    told: list[Any] = []
    for block in blocks:
        for item in cutter.feed(block):
            if isinstance(item, Hole):
                told.append(item.samples)
                continue
            there = item.array[:, 0] if item.missing is None else item.array[~item.missing[:, 0], 0]
            assert np.array_equal(item.times, np.arange(item.first_index, item.next_index) * 1_000_000)
            assert item.t0_ns == item.first_index * 1_000_000
            told.append(((item.first_index, item.next_index), there.astype(int).tolist()))
    return told


def test_without_windows_every_block_is_a_piece_and_every_gap_a_hole() -> None:
    told = fed(Cutter(1, give=False), Block(5, 2), Block(7, 1), Block(10, 2))
    assert told == [((5, 7), [5, 6]), ((7, 8), [7]), 2, ((10, 12), [10, 11])]


def test_windows_begin_at_multiples_and_only_whole_ones_are_given() -> None:
    told = fed(Cutter(4, give=False), Block(3, 2), Block(5, 4), Block(9, 9))
    assert told == [((4, 8), [4, 5, 6, 7]), ((8, 16), [8, 9, 10, 11, 12, 13, 14, 15])]


@pytest.mark.parametrize("give", [False, True])
def test_a_reader_that_joins_in_a_window_leaves_it_out(give: bool) -> None:
    assert fed(Cutter(4, give=give), Block(1, 3), Block(4, 4)) == [((4, 8), [4, 5, 6, 7])]


def test_windows_that_a_gap_touches_are_holes() -> None:
    # 0..2 and 3..7 lack samples, 8..12 is not there, 12..16 begins late, 16..20 is whole.
    told = fed(Cutter(4, give=False), Block(0, 6), Block(13, 7))
    assert told == [((0, 4), [0, 1, 2, 3]), 3, ((16, 20), [16, 17, 18, 19])]


def test_a_gap_up_to_a_border_costs_no_window_behind_it() -> None:
    assert fed(Cutter(4, give=False), Block(0, 4), Block(8, 4)) == [
        ((0, 4), [0, 1, 2, 3]),
        1,
        ((8, 12), [8, 9, 10, 11]),
    ]


def test_incomplete_windows_are_given_with_their_mask_and_empty_ones_are_holes() -> None:
    told = fed(Cutter(4, give=True), Block(0, 6), Block(13, 3))
    assert told == [((0, 4), [0, 1, 2, 3]), ((4, 8), [4, 5]), 1, ((12, 16), [13, 14, 15])]


def test_a_gap_within_a_window_is_masked() -> None:
    assert fed(Cutter(8, give=True), Block(0, 3), Block(5, 3)) == [((0, 8), [0, 1, 2, 5, 6, 7])]


def test_what_is_missing_of_samples_goes_with_them() -> None:
    missing = np.zeros((3, 2), np.bool_)
    missing[1, 0] = True
    told = fed(Cutter(2, give=False), Block(0, 3, missing), Block(3, 3))
    assert told == [((0, 2), [0]), ((2, 6), [2, 3, 4, 5])], "the mask is forgotten with the window that it was for"


def test_the_end_tells_what_is_behind_the_last_window() -> None:
    for give in (False, True):
        cutter = Cutter(4, give=give)
        fed(cutter, Block(0, 6))
        assert list(cutter.finish(13)) == [Hole(2)], "4..8 lacks samples, 8..12 never came, 12..16 is not over"
        assert list(cutter.finish(13)) == []


def test_gaps_come_with_the_first_piece_behind_them() -> None:
    cutter = Cutter(4, give=False)
    assert list(cutter.feed(Block(0, 3, gaps=["a"]))) == []
    (chunk,) = cutter.feed(Block(3, 1, gaps=["b"]))
    assert isinstance(chunk, Chunk) and chunk.gaps == ["a", "b"]
    (chunk,) = cutter.feed(Block(4, 4))
    assert isinstance(chunk, Chunk) and chunk.gaps == []


@pytest.mark.parametrize("every", [1, 3, 10])
@pytest.mark.parametrize("give", [False, True])
def test_every_window_is_told_once_however_blocks_and_gaps_fall(every: int, give: bool) -> None:
    for seed in range(60):
        chance = np.random.default_rng(seed)
        cutter, at, first, told = Cutter(every, give=give), int(chance.integers(0, 30)), None, []
        came: set[int] = set()
        for _ in range(int(chance.integers(1, 30))):
            at += int(chance.integers(0, 25)) * int(chance.integers(0, 2))
            samples = int(chance.integers(1, 25))
            first = at if first is None else first
            came.update(range(at, at + samples))
            told += fed(cutter, Block(at, samples))
            at += samples
        assert first is not None
        position = -(-first // every)
        for item in told:
            if isinstance(item, int):
                for window in range(position, position + item):
                    wanted = set(range(window * every, (window + 1) * every))
                    assert (not wanted & came) if give else (wanted - came), f"seed {seed}: window {window}"
                position += item
                continue
            (begin, end), there = item
            assert begin == position * every, f"seed {seed}"
            assert there == [index for index in range(begin, end) if index in came], f"seed {seed}"
            position = end // every
        position += sum(hole.samples for hole in cutter.finish(at))
        # A window known to be a hole may be reported before its end.
        over = max(at // every, -(-first // every))
        assert position == over or (not give and position == over + 1), f"seed {seed}"


def test_a_window_larger_than_memory_is_refused() -> None:
    cutter = Cutter(MAX_WINDOW_BYTES // 16 + 1, give=False)
    with pytest.raises(ValueError, match="smaller `every`"):
        list(cutter.feed(Block(0, 1)))
    assert list(Cutter(MAX_WINDOW_BYTES // 16, give=False).feed(Block(0, 1))) == []


def chunk(samples: int = 6, every: int = 2) -> Chunk:
    (made,) = Cutter(every, give=False).feed(Block(0, samples))
    assert isinstance(made, Chunk)
    return made


def test_a_piece_is_seen_by_window_and_by_channel() -> None:
    made = chunk()
    assert len(made) == 3 and made.windows.shape == (3, 2, 2)
    assert made["b"].tolist() == [0, -1, -2, -3, -4, -5]
    assert made.values()[:, 1].tolist() == [0, -2, -4, -6, -8, -10]
    with pytest.raises(KeyError, match="the channels are: a, b"):
        made["c"]


def result_schema(dtype: str = "f4", *names: str) -> tc.Schema:
    return tc.Schema(np.dtype(dtype), RATE, tuple(tc.Channel(name=name) for name in names or ("rms",)))


@pytest.mark.parametrize("result", [np.ones(3, "f4"), [1, 1, 1], np.ones((3, 1)), {"rms": [1, 1, 1]}])
def test_results_are_taken_in_any_shape_that_is_clear(result: Any) -> None:
    array, there = rows(result, chunk(), result_schema())
    assert array.tolist() == [[1], [1], [1]] and there is None and array.dtype == np.float32


def test_a_mask_and_nothing_are_holes() -> None:
    assert rows(None, chunk(), result_schema()) == (None, None)
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])
    array, there = rows(masked, chunk(), result_schema())
    assert there.tolist() == [True, False, True] and array[2] == 3
    masked = np.ma.masked_array(np.ones((3, 2)), [[False, False], [True, False], [False, False]])
    assert rows(masked, chunk(), result_schema("f8", "a", "b"))[1].tolist() == [True, False, True]


@pytest.mark.parametrize("result", [np.ones(2), 1.0, np.ones((4, 1))])
def test_results_that_are_too_many_or_too_few_are_refused(result: Any) -> None:
    with pytest.raises(tc.ConfigError, match="results where 3 are expected"):
        rows(result, chunk(), result_schema())


def test_results_that_do_not_fit_are_refused() -> None:
    with pytest.raises(tc.ConfigError, match=r"of shape \[3, 2\], not \[samples, 1\]"):
        rows(np.ones((3, 2)), chunk(), result_schema())
    with pytest.raises(tc.ConfigError, match="convert the samples"):
        rows(np.ones(3), chunk(), result_schema("i2"))
