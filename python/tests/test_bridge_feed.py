"""Treatment of a peer's updates: decided without a clock, a network or a publisher."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from tallycast.bridges._feed import MAX_MISSED, MIN_EPOCH_NS, NS, Action, Begin, End, Feed, Form, Say, Send, Skip
from tallycast.bridges._feed_publisher import Declaration, FeedPublisher
from tallycast.bridges._run import Reporter

FORM = Form((("value", "V"),), np.dtype("f8"))
OTHER = Form((("value", "V"),), np.dtype("i4"))
T0 = 1_790_000_000 * NS


def ns(seconds: float) -> int:
    return round(seconds * NS)


def array(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, dtype="f8")


def told(actions: Iterable[Action]) -> list[Any]:
    """Writes actions in short form; messages by their event."""
    brief: list[Any] = []
    for action in actions:
        match action:
            case Begin():
                brief.append("begin")
            case End():
                brief.append("end")
            case Send(values, _):
                brief.append(values.tolist())
            case Skip(samples):
                brief.append(-samples)
            case Say(event, _):
                brief.append(event)
    return brief


def step(
    feed: Feed, seconds: float, *values: Any, form: Form = FORM, now: float | None = None, bad: str | None = None
) -> list[Any]:
    return told(
        feed.update(
            form, array(*values).astype(form.dtype), T0 + ns(seconds), ns(seconds if now is None else now), bad=bad
        )
    )


def test_an_update_is_a_sample_and_the_first_begins_an_epoch() -> None:
    feed = Feed("pv")
    assert step(feed, 0, 1.0) == ["begin", [1.0]]
    assert step(feed, 9, 2.0) == [[2.0]]
    assert told(feed.end(0)) == ["end"]
    assert (feed.counters.updates, feed.counters.sent, feed.counters.samples, feed.counters.epochs) == (2, 2, 2, 1)
    assert feed.counters.balanced


def test_what_the_peer_calls_bad_is_a_hole_that_is_said_once() -> None:
    feed = Feed("pv")
    step(feed, 0, 1.0)
    assert step(feed, 1, 2.0, bad="invalid") == [-1, "bad"]
    assert step(feed, 2, 3.0, bad="invalid") == [-1]
    assert step(feed, 3, 4.0) == ["good", [4.0]]
    assert feed.counters.bad == {"invalid": 2} and feed.counters.skipped == {"bad": 2} and feed.counters.balanced


def test_coming_back_with_the_update_seen_last_means_that_nothing_was_missed() -> None:
    feed = Feed("pv")
    step(feed, 0, 1.0)
    assert told(feed.away("disconnected", T0)) == ["away"]
    assert told(feed.away("disconnected", T0)) == []
    assert step(feed, 0, 1.0, now=5) == ["back"]
    assert step(feed, 6, 2.0) == [[2.0]]
    counters = feed.counters
    assert (counters.repeated, counters.uncounted, counters.outages, counters.skipped) == (1, 0, 1, {})
    assert counters.outage_list[0]["samples"] == 0 and counters.balanced


def test_without_a_rate_an_outage_leaves_a_mark_of_one_sample_and_says_that_it_counts_nothing() -> None:
    feed = Feed("pv")
    step(feed, 0, 1.0)
    told(feed.away("disconnected", T0))
    actions = list(feed.update(FORM, array(2.0), T0 + ns(60), ns(60)))
    assert told(actions) == [-1, "back", [2.0]]
    assert "unknown" in next(it.text for it in actions if isinstance(it, Say))
    assert feed.counters.uncounted == 1 and feed.counters.outage_list[0]["samples"] is None


@pytest.mark.parametrize(("seconds", "missing"), [(0.1, 0), (0.149, 0), (0.151, 1), (0.2, 1), (0.249, 1), (1.0, 9)])
def test_at_a_known_rate_the_time_stamps_count_what_is_missing(seconds: float, missing: int) -> None:
    for was_away in (False, True):
        feed = Feed("pv", Fraction(10))
        step(feed, 0, 1.0)
        if was_away:
            told(feed.away("disconnected", T0))
        actions = step(feed, seconds, 2.0)
        assert [it for it in actions if isinstance(it, int)] == ([-missing] if missing else [])
        assert actions[-1] == [2.0]
        assert feed.counters.uncounted == 0 and sum(feed.counters.skipped.values()) == missing


def test_of_runs_of_samples_whole_runs_are_missing() -> None:
    feed = Feed("pv", Fraction(100))
    step(feed, 0, 1.0, 2.0, 3.0, 4.0)
    assert step(feed, 0.045, 5.0, 6.0, 7.0, 8.0) == [[5.0, 6.0, 7.0, 8.0]]
    # One run of four is missing, though the stamp is off by half a sample.
    assert step(feed, 0.12, 9.0, 10.0, 11.0, 12.0) == [-4, "missed", [9.0, 10.0, 11.0, 12.0]]


def test_another_type_begins_an_epoch_but_no_more_than_one_a_second() -> None:
    feed = Feed("pv")
    step(feed, 0, 1.0, now=0)
    seconds = MIN_EPOCH_NS / NS
    assert step(feed, 0.5, 2, form=OTHER, now=seconds - 0.001) == [-1, "unfitting"]
    assert step(feed, 1, 3, form=OTHER, now=seconds) == ["form", "end", "begin", [3]]
    counters = feed.counters
    assert (counters.unfitting, counters.epochs, counters.balanced) == (1, 2, True)


def test_a_type_that_changes_while_the_peer_is_away_leaves_no_mark_in_the_new_epoch() -> None:
    feed = Feed("pv")
    step(feed, 0, 1.0)
    told(feed.away("disconnected", T0))
    assert step(feed, 10, 2, form=OTHER) == ["form", "end", "begin", "back", [2]]
    assert feed.counters.uncounted == 0 and feed.counters.skipped == {}


def test_a_clock_set_back_a_little_is_waited_out_and_by_more_begins_an_epoch() -> None:
    feed = Feed("pv")
    step(feed, 10, 1.0)
    assert step(feed, 9, 2.0, now=11) == [-1, "behind"]
    assert step(feed, 9.5, 3.0, now=12) == [-1]
    assert step(feed, 10.5, 4.0, now=13) == [[4.0]]
    assert step(feed, 9.4, 5.0, now=14) == ["clock", "end", "begin", [5.0]]
    assert feed.counters.behind == 2 and feed.counters.balanced


def test_an_unusable_update_is_a_hole_within_an_epoch_and_only_counted_before_the_first() -> None:
    feed = Feed("pv")
    assert told(feed.refuse("a string", 0)) == ["refused"]
    step(feed, 0, 1.0)
    assert told(feed.refuse("a string", 1)) == [-1]
    assert feed.counters.refused == 2 and feed.counters.skipped == {"refused": 1} and feed.counters.balanced


def test_who_is_away_until_the_end_leaves_a_mark() -> None:
    feed = Feed("pv")
    step(feed, 0, 1.0)
    told(feed.away("disconnected", T0))
    assert told(feed.end(T0 + NS)) == [-1, "back", "end"]
    assert feed.counters.outage_list == [{"from_ns": T0, "to_ns": T0 + NS, "why": "disconnected", "samples": None}]


def test_who_never_came_leaves_nothing() -> None:
    feed = Feed("pv")
    told(feed.away("no answer", T0))
    assert told(feed.end(T0)) == []


def test_rows_go_in_runs_between_holes() -> None:
    feed = Feed("table", Fraction(10))
    times = T0 + np.array([0.0, 0.1, 0.2, 0.5, 0.6]) * NS
    actions = told(feed.rows(FORM, array(1, 2, 3, 4, 5), times.astype(np.int64), 0))
    assert actions == ["begin", [1, 2, 3], -2, "missed", [4, 5]]
    more = T0 + np.array([0.8, 0.9]) * NS
    assert told(feed.rows(FORM, array(7, 8), more.astype(np.int64), 0)) == [-1, [7, 8]]
    assert feed.counters.samples == 7 and feed.counters.skipped == {"missed": 3}


def test_rows_without_a_rate_have_their_own_times() -> None:
    feed = Feed("table")
    times = np.array([T0, T0 + 7, T0 + NS], dtype=np.int64)
    sent = [it for it in feed.rows(FORM, array(1, 2, 3), times, 0) if isinstance(it, Send)]
    assert len(sent) == 1 and sent[0].times_ns is not None
    assert sent[0].times_ns.tolist() == times.tolist()


def test_at_a_known_rate_nothing_is_counted_twice() -> None:
    feed = Feed("table", Fraction(10))
    step(feed, 0.0, 1.0)
    # An invalid row in place of a sample: its time stamp is not read, the next one's is.
    assert told(feed.refuse("no number", 0)) == ["refused"]
    assert step(feed, 0.2, 3.0) == [-1, "missed", [3.0]]
    # The peer's own count comes first; its time stamps agree.
    assert told(feed.lost(4, "by its count", 0)) == [-4]
    assert step(feed, 0.7, 8.0) == [[8.0]]
    told(feed.away("disconnected", T0))
    assert told(feed.back(T0, 2)) == [-2, "back"]
    assert step(feed, 1.0, 11.0) == [[11.0]]
    # An update without a time has no place among samples at a rate.
    assert told(feed.update(FORM, array(0.0), None, 0, bad="no time stamp")) == ["bad"]
    assert step(feed, 1.2, 13.0) == [-1, [13.0]]
    assert sum(feed.counters.skipped.values()) == 8 and feed.counters.balanced


def test_a_clock_far_ahead_begins_an_epoch_instead_of_a_hole_of_years() -> None:
    feed = Feed("pv", Fraction(1_000))
    assert step(feed, 0, 1.0) == ["begin", [1.0]]
    far = (MAX_MISSED + 2) / 1_000
    assert step(feed, far, 2.0) == ["clock", "end", "begin", [2.0]]
    assert step(feed, 2, 3.0) == ["clock", "end", "begin", [3.0]]
    assert feed.counters.balanced and feed.counters.skipped == {}


def test_a_count_that_leaps_is_a_mark() -> None:
    feed = Feed("pv")
    step(feed, 0, 1.0)
    assert told(feed.lost(MAX_MISSED, "by the count", 0)) == [-MAX_MISSED, "missed"]
    assert told(feed.lost(MAX_MISSED + 1, "by the count", 0)) == [-1, "restarted"]
    assert told(feed.away("gone", 0)) == ["away"]
    assert told(feed.back(0, MAX_MISSED + 1)) == [-1, "restarted", "back"]
    assert feed.counters.uncounted == 2


class Heard(Reporter):
    """A reporter that keeps what is said."""

    def __init__(self) -> None:
        super().__init__("test", as_json=True)
        self.events: list[tuple[str, str]] = []

    def say(self, event: str, text: str, **where: Any) -> None:
        self.events.append((event, text))


@pytest.mark.parametrize(
    ("form", "values", "why", "epochs"),
    [
        # No publisher opens.
        (Form((("u", "V"),), np.dtype("f8"), (0,)), np.zeros((1, 0)), "channel `u`", 1),
        # One opens, and takes no such samples.
        (Form((("u", "V"), ("u", "V")), np.dtype("f8")), np.zeros((1, 2)), "shape [1, 2]", 2),
    ],
)
def test_what_no_stream_takes_is_refused_and_the_next_is_published(form: Form, values: Any, why: str, epochs: int) -> None:
    heard, bus = Heard(), f"shm://feed-{os.getpid()}-{epochs}"
    publisher = FeedPublisher(Feed("pv"), Declaration("lab/fed", Fraction(1_000), bus), heard)
    for second in range(3):
        publisher.do(publisher.feed.update(form, values, T0 + ns(second), ns(second)))
    publisher.do(publisher.feed.update(form, values, T0 + ns(3), ns(3), bad="invalid"))
    publisher.do(publisher.feed.update(FORM, array(1.0), T0 + ns(4), ns(4)))
    account = publisher.close(0)
    assert account["balanced"] and (account["refused"], account["sent"], publisher.feed.counters.epochs) == (3, 1, epochs), account
    (refusal,) = [text for event, text in heard.events if event == "refused"]
    assert why in refusal
    assert account["totals"][-1]["samples"]["offered"] == 1


@pytest.mark.parametrize(("stream", "bus"), [("a b", "shm://feed"), ("lab/fed", "http://x")])
def test_what_the_user_asked_for_wrongly_ends_a_bridge_before_it_begins(stream: str, bus: str) -> None:
    with pytest.raises(tc.ConfigError):
        FeedPublisher(Feed("pv"), Declaration(stream, Fraction(1), bus), Heard())
