"""Downsampling of a fast stream to slow outputs, by a clock that the test moves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tallycast.bridges import _thinner
from tallycast.bridges._thinner import Thinned, Thinner

MS = 1_000_000


def offer(thinner: Thinner, *values: float, t_ns: int = 0) -> list[Thinned]:
    times = np.arange(len(values), dtype=np.int64) + t_ns
    return thinner.offer(np.array(values), times)


@pytest.mark.parametrize(("method", "value"), [("last", 6.0), ("mean", 3.0), ("min", 1.0), ("max", 6.0)])
def test_an_output_stands_for_everything_since_the_last(method: str, value: float) -> None:
    thinner = Thinner(method, Fraction(10))
    offer(thinner, 2.0, 1.0, 3.0)
    offer(thinner, 6.0, t_ns=100)
    output = thinner.poll(0)
    assert output is not None
    assert (output.value, output.t_ns, output.samples, output.missing) == (value, 100, 4, 0)
    assert thinner.poll(10**12) is None


def test_outputs_come_no_faster_than_their_rate_and_their_counts_add_up() -> None:
    thinner = Thinner("last", Fraction(10))
    outputs = []
    for ms in range(1_000):
        offer(thinner, float(ms), t_ns=ms)
        if ms % 100 == 50:
            thinner.lost(3, ms)
        if (output := thinner.poll(ms * MS)) is not None:
            outputs.append((ms, output))
    rest = thinner.flush()
    assert rest is not None
    assert [ms for ms, _ in outputs] == list(range(0, 1_000, 100))
    assert sum(it.samples for _, it in outputs) + rest.samples == thinner.told == 1_000
    assert sum(it.missing for _, it in outputs) + rest.missing == thinner.told_missing == 30


def test_a_late_caller_does_not_shift_what_follows() -> None:
    thinner = Thinner("last", Fraction(10))
    due = []
    for ms in [0, 130, 200, 290, 300]:
        offer(thinner, 1.0)
        if thinner.poll(ms * MS) is not None:
            due.append(ms)
    assert due == [0, 130, 200, 300]


def test_without_a_rate_every_sample_is_an_output() -> None:
    thinner = Thinner("last", None)
    thinner.lost(2, 0)
    outputs = offer(thinner, 1.0, 2.0)
    assert [(it.value, it.missing) for it in outputs] == [(1.0, 2), (2.0, 0)]
    assert thinner.poll(0) is None and thinner.told == 2 and thinner.told_missing == 2


def test_a_hole_alone_is_an_output_without_a_value() -> None:
    thinner = Thinner("last", Fraction(1))
    thinner.lost(5, 77)
    assert thinner.poll(0) == Thinned(None, 77, 0, 5)


@pytest.mark.parametrize(("method", "value"), [("last", 29.0), ("mean", 14.5), ("min", 0.0), ("max", 29.0)])
def test_what_waits_is_folded_before_it_grows_without_bound(
    method: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_thinner, "MAX_WAITING_SAMPLES", 4)
    thinner = Thinner(method, Fraction(1))
    thinner.poll(0)
    for first in range(0, 30, 3):
        offer(thinner, first, first + 1, first + 2)
        assert sum(len(it) for it in thinner._waiting) <= 4
    output = thinner.flush()
    assert output is not None and output.value == value and output.samples == 30


def test_samples_that_are_arrays_are_thinned_element_by_element() -> None:
    thinner = Thinner("max", Fraction(1))
    thinner.offer(np.array([[1.0, 5.0], [2.0, 4.0]]), np.zeros(2, dtype=np.int64))
    output = thinner.flush()
    assert output is not None and output.value is not None and output.value.tolist() == [2.0, 5.0]
