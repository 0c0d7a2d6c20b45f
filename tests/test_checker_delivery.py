"""The delivery checker, from tables and from properties of random histories."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkers import delivery
from harness.history import INTERRUPTED, Event
from history_builder import History, a_run, judged, without


def _whole(history: History) -> list[Event]:
    """With a beginning and an end, so that it counts as complete."""
    history.add(0.0, "run.started", parameters={"fault": "none"})
    history.phases(check=90.0)
    return history.events()


def _two_writes() -> History:
    history = History()
    history.opened(1.0, "s1")
    history.write(2.0, "k1", 1)
    history.write(3.0, "k1", 2)
    return history


def test_a_run_with_every_event_once_and_in_order_is_valid() -> None:
    finding = judged(delivery, a_run(silent={"s1": [(7.0, 18.5)]}).events())
    assert finding.valid is True
    assert finding.evidence["exact"] == 2
    assert finding.evidence["problems"] == []
    assert finding.evidence["streams"][0]["required"] == finding.evidence["streams"][0]["delivered"] == 188


def test_a_removed_event_is_named_with_its_stream_and_the_time_of_its_acknowledgement() -> None:
    events = without(a_run().events(), "stream.event", stream="s2", key="shard1-k0", seq=7)
    finding = judged(delivery, events)
    assert finding.valid is False
    assert finding.evidence["problems"] == [
        "stream s2: event (key 'shard1-k0', seq 7) missing; acknowledged at 4.110 s"
    ]
    assert finding.evidence["exact"] == 1


def test_the_last_event_of_a_document_is_missed_too() -> None:
    history = _two_writes()
    history.event(2.1, "s1", "k1", 1)
    finding = judged(delivery, _whole(history))
    assert finding.evidence["problems"] == ["stream s1: event (key 'k1', seq 2) missing; acknowledged at 3.010 s"]
    assert finding.evidence["streams"][0]["gaps"] == 0


def test_an_event_that_comes_twice_is_doubled() -> None:
    history = _two_writes()
    history.event(2.1, "s1", "k1", 1)
    history.event(3.1, "s1", "k1", 2)
    history.event(3.2, "s1", "k1", 1)
    finding = judged(delivery, _whole(history))
    assert finding.valid is False
    assert finding.evidence["problems"] == [
        "stream s1: event (key 'k1', seq 1) doubled; delivered at 2.100 s and at 3.200 s"
    ]


def test_events_of_one_document_in_the_wrong_order_are_named() -> None:
    history = _two_writes()
    history.event(3.1, "s1", "k1", 2)
    history.event(3.2, "s1", "k1", 1)
    finding = judged(delivery, _whole(history))
    assert finding.evidence["problems"] == [
        "stream s1: event (key 'k1', seq 1) out of order; delivered at 3.200 s after seq 2"
    ]


def test_writes_of_one_document_that_overlapped_may_come_in_either_order() -> None:
    history = History()
    history.opened(1.0, "s1")
    history.write(2.0, "k1", 1, after=2.0)
    history.write(3.0, "k1", 2, after=0.1)
    history.event(3.2, "s1", "k1", 2)
    history.event(3.3, "s1", "k1", 1)
    assert judged(delivery, _whole(history)).valid is True


@pytest.mark.parametrize(
    ("outcome", "deliveries", "valid"),
    [
        ("unknown", 0, True),
        ("unknown", 1, True),
        ("unknown", 2, False),
        (None, 0, True),
        (None, 1, True),
        ("failed", 0, True),
        ("failed", 1, False),
        ("ok", 0, False),
        ("ok", 1, True),
    ],
)
def test_what_may_come_depends_on_the_outcome_of_the_write(outcome: str | None, deliveries: int, valid: bool) -> None:
    history = History()
    history.opened(1.0, "s1")
    history.write(2.0, "k1", 1, outcome=outcome)
    for number in range(deliveries):
        history.event(2.1 + number, "s1", "k1", 1)
    assert judged(delivery, _whole(history)).valid is valid


def test_a_write_of_unknown_outcome_may_take_effect_late() -> None:
    history = History()
    history.opened(1.0, "s1")
    history.write(2.0, "k1", 1, outcome="unknown")
    history.write(3.0, "k1", 2)
    history.event(3.1, "s1", "k1", 2)
    history.event(3.2, "s1", "k1", 1)
    assert judged(delivery, _whole(history)).valid is True


def test_a_refused_write_that_is_sent_again_and_acknowledged_is_required() -> None:
    history = History()
    history.opened(1.0, "s1")
    history.write(2.0, "k1", 1, outcome="failed")
    history.write(3.0, "k1", 1)
    assert judged(delivery, _whole(history)).valid is False
    history.event(3.1, "s1", "k1", 1)
    assert judged(delivery, _whole(history)).valid is True


def test_a_refused_write_that_is_sent_again_without_an_answer_may_come() -> None:
    history = History()
    history.opened(1.0, "s1")
    history.write(2.0, "k1", 1, outcome="failed")
    history.write(3.0, "k1", 1, outcome=None)
    history.event(3.1, "s1", "k1", 1)
    assert judged(delivery, _whole(history)).valid is True


@pytest.mark.parametrize("again", ["ok", "unknown", "failed"])
def test_a_write_once_acknowledged_stays_required_and_counts_once(again: str) -> None:
    history = History()
    history.opened(1.0, "s1")
    history.write(2.0, "k1", 1)
    history.write(3.0, "k1", 1, outcome=again)
    finding = judged(delivery, _whole(history))
    assert finding.evidence["problems"] == ["stream s1: event (key 'k1', seq 1) missing; acknowledged at 2.010 s"]


def test_a_refusal_does_not_undo_an_earlier_unknown_outcome() -> None:
    history = History()
    history.opened(1.0, "s1")
    history.write(2.0, "k1", 1, outcome="unknown")
    history.write(3.0, "k1", 1, outcome="failed")
    history.event(3.1, "s1", "k1", 1)
    assert judged(delivery, _whole(history)).valid is True


@pytest.mark.parametrize("invoked", [0.5, 0.995])
@pytest.mark.parametrize("delivered", [True, False])
def test_a_write_invoked_before_the_stream_opened_may_come_or_not(invoked: float, delivered: bool) -> None:
    history = History()
    history.opened(1.0, "s1")
    history.write(invoked, "k1", 1, after=0.02)
    if delivered:
        history.event(1.1, "s1", "k1", 1)
    assert judged(delivery, _whole(history)).valid is True


def test_an_event_of_a_write_that_is_not_in_the_record_is_a_problem() -> None:
    history = _two_writes()
    for seq in (1, 2, 3):
        history.event(3.0 + seq / 10, "s1", "k1", seq)
    finding = judged(delivery, _whole(history))
    assert finding.evidence["problems"] == [
        "stream s1: event (key 'k1', seq 3) delivered at 3.300 s although no such write is in the record"
    ]


def test_events_without_a_sequence_are_no_marks() -> None:
    history = _two_writes()
    history.event(2.1, "s1", "k1", 1)
    history.event(2.2, "s1", "elsewhere", None)
    history.event(3.1, "s1", "k1", 2)
    assert judged(delivery, _whole(history)).valid is True


def test_exactness_holds_over_resumes_of_driver_and_consumer() -> None:
    history = _two_writes()
    history.event(2.1, "s1", "k1", 1)
    history.add(2.2, "stream.error", stream="s1", error="AutoReconnect: gone", code=None, where="next")
    history.closed(2.3, "s1", "closed by the driver after an error")
    history.opened(2.5, "s1", resumed=True)
    history.add(2.5, "stream.resumed", stream="s1", by="consumer")
    history.event(3.1, "s1", "k1", 2)
    assert judged(delivery, _whole(history)).valid is True


def test_a_stream_that_was_closed_and_opened_again_is_judged_to_the_end() -> None:
    history = _two_writes()
    history.event(2.1, "s1", "k1", 1)
    history.closed(2.3, "s1", "closed by the driver after an error")
    history.opened(2.5, "s1", resumed=True)
    finding = judged(delivery, _whole(history))
    assert finding.evidence["problems"] == ["stream s1: event (key 'k1', seq 2) missing; acknowledged at 3.010 s"]


def test_a_write_acknowledged_after_the_stream_was_closed_at_the_end_of_the_run_is_not_required() -> None:
    history = _two_writes()
    history.event(2.1, "s1", "k1", 1)
    history.closed(3.005, "s1")
    assert judged(delivery, _whole(history)).valid is True


def test_a_stream_opened_anew_without_resuming_misses_what_came_in_between() -> None:
    history = _two_writes()
    history.closed(1.5, "s1", "invalidated")
    history.opened(2.5, "s1")
    history.event(3.1, "s1", "k1", 2)
    finding = judged(delivery, _whole(history))
    assert finding.evidence["problems"] == ["stream s1: event (key 'k1', seq 1) missing; acknowledged at 2.010 s"]


def test_a_stream_closed_early_is_judged_for_gaps_alone_and_the_rest_is_unknown() -> None:
    history = _two_writes()
    history.event(2.1, "s1", "k1", 1)
    history.closed(2.5, "s1", "closed by the driver after an error")
    finding = judged(delivery, _whole(history))
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == [
        "stream s1: 1 events not delivered; not judged, because it was closed at 2.500 s "
        "(closed by the driver after an error)"
    ]


def test_a_gap_is_a_loss_even_on_a_stream_closed_early() -> None:
    history = _two_writes()
    history.event(3.1, "s1", "k1", 2)
    history.closed(3.5, "s1", "closed by the driver after an error")
    finding = judged(delivery, _whole(history))
    assert finding.valid is False
    assert finding.evidence["streams"][0]["gaps"] == 1


def test_an_event_before_one_of_an_overlapping_write_may_still_be_to_come() -> None:
    history = History()
    history.opened(1.0, "s1")
    history.write(2.0, "k1", 1, after=2.0)
    history.write(3.0, "k1", 2, after=0.1)
    history.event(3.2, "s1", "k1", 2)
    assert judged(delivery, history.events()).valid == "unknown"


@pytest.mark.parametrize("ended", [INTERRUPTED, "failed", None])
def test_in_a_run_that_did_not_end_by_itself_what_is_outstanding_is_unknown(ended: str | None) -> None:
    history = _two_writes()
    history.event(2.1, "s1", "k1", 1)
    history.add(0.0, "run.started", parameters={})
    history.phases(hold=2.5)
    if ended:
        history.add(4.0, "run.ended", reason=ended)
    assert judged(delivery, history.events()).valid == "unknown"


def test_while_a_fault_is_not_healed_what_is_outstanding_is_unknown() -> None:
    history = _two_writes()
    history.event(2.1, "s1", "k1", 1)
    history.fault(healed=None, recovered=None)
    finding = judged(delivery, _whole(history))
    assert finding.valid == "unknown"
    assert "fault f1 was not healed" in finding.evidence["doubts"][0]


def test_a_stream_whose_opening_is_not_recorded_is_not_vouched_for() -> None:
    history = History()
    history.write(2.0, "k1", 1)
    history.event(2.1, "s1", "k1", 1)
    finding = judged(delivery, _whole(history))
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == ["stream s1: has events, but its opening is not in the record"]


def test_without_any_stream_nothing_is_known() -> None:
    history = History()
    history.write(2.0, "k1", 1)
    assert judged(delivery, _whole(history)).valid == "unknown"
    assert judged(delivery, []).valid == "unknown"


def test_a_stream_without_writes_has_delivered_all_there_was() -> None:
    history = History()
    history.opened(1.0, "s1")
    assert judged(delivery, _whole(history)).valid is True


def test_many_problems_are_counted_and_not_all_spelled_out() -> None:
    history = History()
    history.opened(1.0, "s1")
    for seq in range(500):
        history.write(2.0 + seq / 10, "k1", seq)
    finding = judged(delivery, _whole(history))
    assert finding.evidence["problem_count"] == 500
    assert len(finding.evidence["problems"]) == delivery.PROBLEMS_SHOWN


def test_a_great_many_problems_take_no_longer_than_none() -> None:
    """Every event doubled: a sentence names the first delivery, which must not be looked for each time."""
    history = History()
    history.opened(1.0, "s1")
    for seq in range(20_000):
        history.write(2.0 + seq / 1000, "k1", seq, after=0.0001)
        history.event(30.0 + seq / 1000, "s1", "k1", seq)
        history.event(60.0 + seq / 1000, "s1", "k1", seq)
    events = _whole(history)
    start = time.process_time()
    finding = judged(delivery, events)
    assert time.process_time() - start < 2.0
    assert finding.evidence["problem_count"] == 20_000


@st.composite
def _runs(draw: st.DrawFn) -> tuple[list[tuple[str, int]], dict[str, list[tuple[str, int]]]]:
    """Writes in order, and per stream a delivery order that keeps that of each document."""
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    writes = [(f"k{key}", seq) for key, length in enumerate(lengths) for seq in range(length)]
    shuffle = random.Random(draw(st.integers(0, 1 << 32)))

    def interleaved() -> list[tuple[str, int]]:
        keys = [key for key, _ in writes]
        shuffle.shuffle(keys)
        following: dict[str, int] = dict.fromkeys(keys, -1)
        order = []
        for key in keys:
            following[key] += 1
            order.append((key, following[key]))
        return order

    streams = draw(st.integers(1, 3))
    return interleaved(), {f"s{number}": interleaved() for number in range(streams)}


def _history(writes: list[tuple[str, int]], deliveries: dict[str, list[tuple[str, int]]]) -> list[Event]:
    """All writes acknowledged first, then all deliveries: the checker must not care."""
    history = History()
    for stream in deliveries:
        history.opened(1.0, stream)
    for number, (key, seq) in enumerate(writes):
        history.write(2.0 + number / 100, key, seq, after=0.001)
    for stream, order in deliveries.items():
        for number, (key, seq) in enumerate(order):
            history.event(10.0 + number / 100, stream, key, seq)
    return _whole(history)


@settings(max_examples=60, deadline=None)
@given(_runs())
def test_any_order_across_documents_is_valid(run: Any) -> None:
    assert judged(delivery, _history(*run)).valid is True


@settings(max_examples=60, deadline=None)
@given(_runs(), st.data())
def test_any_one_event_taken_away_is_named_and_no_other(run: Any, data: st.DataObject) -> None:
    writes, deliveries = run
    stream = data.draw(st.sampled_from(sorted(deliveries)))
    key, seq = deliveries[stream].pop(data.draw(st.integers(0, len(writes) - 1)))
    finding = judged(delivery, _history(writes, deliveries))
    assert finding.valid is False
    [problem] = finding.evidence["problems"]
    assert problem.startswith(f"stream {stream}: event (key {key!r}, seq {seq}) missing; acknowledged at ")


@settings(max_examples=60, deadline=None)
@given(_runs(), st.data())
def test_any_one_event_repeated_is_named_and_no_other(run: Any, data: st.DataObject) -> None:
    writes, deliveries = run
    stream = data.draw(st.sampled_from(sorted(deliveries)))
    order = deliveries[stream]
    position = data.draw(st.integers(0, len(order) - 1))
    again = data.draw(st.integers(position + 1, len(order)))
    key, seq = order[position]
    order.insert(again, (key, seq))
    finding = judged(delivery, _history(writes, deliveries))
    assert finding.valid is False
    [problem] = finding.evidence["problems"]
    assert problem.startswith(f"stream {stream}: event (key {key!r}, seq {seq}) doubled; ")


@settings(max_examples=60, deadline=None)
@given(_runs(), st.data())
def test_two_events_of_one_document_exchanged_are_out_of_order(run: Any, data: st.DataObject) -> None:
    writes, deliveries = run
    stream = data.draw(st.sampled_from(sorted(deliveries)))
    order = deliveries[stream]
    key = data.draw(st.sampled_from(sorted({key for key, _ in writes})))
    places = [position for position, (each, _) in enumerate(order) if each == key]
    if len(places) < 2:
        return
    first, second = sorted(data.draw(st.permutations(places))[:2])
    order[first], order[second] = order[second], order[first]
    finding = judged(delivery, _history(writes, deliveries))
    assert finding.valid is False
    assert all("out of order" in problem for problem in finding.evidence["problems"])
