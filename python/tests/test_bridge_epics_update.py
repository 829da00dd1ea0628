"""Updates of process variables as samples, however their servers describe and fill them; without a server."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tallycast.bridges._epics_update import Meta, Pv, Reading
from tallycast.bridges._feed import Feed, Say, Send, Skip

T0 = 1_790_000_000_000_000_000
DOUBLE = Meta(np.dtype("f8"), None, "V", kind="double")


def read(meta: Meta, value: Any, t_ns: int = T0, severity: int = 0, **options: Any) -> tuple[list[Any], list[int], str, Feed]:
    """Returns the values sent, the samples skipped, and the words of a refusal."""
    pv = Pv(Feed("pv"), channel="value", **options)
    pv.meta(DOUBLE if meta.dtype is None else meta)
    list(pv.reading(Reading(np.array(1, (meta.dtype or np.dtype("f8"))), T0 - 10**10, 0), 0))
    pv.meta(meta)
    actions = list(pv.reading(Reading(np.array(value), t_ns, severity), 0))
    sent = [it.values.tolist() for it in actions if isinstance(it, Send)]
    skipped = [it.samples for it in actions if isinstance(it, Skip)]
    words = next((it.text for it in actions if isinstance(it, Say) and it.event in ("refused", "bad")), "")
    assert pv.feed.counters.balanced
    return sent, skipped, words, pv.feed


@pytest.mark.parametrize(
    ("dtype", "value", "words"),
    [
        ("i4", 2**31, "not exact as int32"),
        ("i4", 1.0, "not exact as int32"),
        ("f4", 1e300, "not exact as float32"),
        ("f8", 2**53 + 1, "not exact as float64"),
        ("u2", -1, "not exact as uint16"),
        ("f8", "text", "contradicts the description"),
        ("f8", [1.0, 2.0], "contradicts the description"),
        ("f8", [], "contradicts the description"),
        ("f8", None, "contradicts the description"),
        ("f8", 1j, "contradicts the description"),
    ],
)
def test_a_value_that_its_type_does_not_hold_is_a_hole(dtype: str, value: Any, words: str) -> None:
    sent, skipped, said, feed = read(Meta(np.dtype(dtype), None, kind=dtype), value)
    assert sent == [] and skipped == [1] and words in said and feed.counters.refused == 1


@pytest.mark.parametrize(("severity", "is_bad"), [(0, False), (2, False), (3, True), (4, True), (-1, True), (2**31, True)])
def test_a_severity_that_no_version_has_is_invalid(severity: int, is_bad: bool) -> None:
    sent, skipped, said, feed = read(DOUBLE, 2.5, severity=severity)
    assert (sent, skipped) == (([], [1]) if is_bad else ([[2.5]], []))
    assert not is_bad or (said.startswith("invalid") and feed.counters.bad == {"invalid": 1})


@pytest.mark.parametrize("t_ns", [0, -(10**18), 2**63, 10**30, -(2**70)])
def test_a_time_that_no_stream_has_makes_a_hole(t_ns: int) -> None:
    sent, skipped, said, feed = read(DOUBLE, 2.5, t_ns)
    assert sent == [] and skipped == [1] and "no time stamp" in said and feed.counters.bad == {"no time stamp": 1}


def test_a_pv_access_update_that_is_no_structure_is_refused_and_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pva = pytest.importorskip("tallycast.bridges._epics_pva")
    pytest.importorskip("p4p")
    heard: list[Any] = []
    handlers: list[Any] = []
    monkeypatch.setattr(pva, "monitor", lambda context, pv, take, request, notify_disconnect: handlers.append(take))
    access = pva.PvAccess(lambda sender, event: heard.append(event))
    try:
        access.follow(7, "X")
        handlers[0](object())
        assert isinstance(heard[0], pva.Unreadable) and "cannot be read: AttributeError" in heard[0].why
    finally:
        access._subscriptions.clear()
        access.close()
