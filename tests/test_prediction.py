"""Predictions agree with what was measured on servers, and no course of a record goes past the bounds."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo import common
from pymongo.asynchronous.collection import AsyncCollection

from harness.drivers.retries import parse
from harness.prediction import WRITES, Counts, Failure, Prediction, Server, Settings, predict
from harness.prediction.execution import execution

FIND, INSERT = WRITES["find-and-modify"], WRITES["insert"]
HANGS, INTERRUPTIBLE, REFUSES = Server.HANGS, Server.INTERRUPTIBLE, Server.REFUSES


def of(retry: str = "fixed(0s,3)", write: str = "insert", **given: Any) -> Prediction:
    return predict(Settings(parse(retry), WRITES[write], **given))


def test_the_course_of_a_record_is_told_send_by_send() -> None:
    """Socket timeout 30 s and FixedBackOff(0, 3): the table that is drawn by hand for it."""
    course = of(write="bulk-ordered", socket_timeout=30).timeline
    assert [(row.at, row.client, row.server) for row in course.rows] == [
        (0, "1st execution: sent (A, 1)", "copy 1 begins"),
        (30, "socket timeout; the driver resends it (A, 1)", "the resend waits for session A; 1 copy"),
        (60, "socket timeout of the resend; 2nd execution: sent (B, 1)", "copy 2 begins; 2 copies"),
        (90, "socket timeout; the driver resends it (B, 1)", "the resend waits for session B; 2 copies"),
        (120, "socket timeout of the resend; 3rd execution: sent (C, 1)", "copy 3 begins; 3 copies"),
        (150, "socket timeout; the driver resends it (C, 1)", "the resend waits for session C; 3 copies"),
        (180, "socket timeout of the resend; 4th execution: sent (D, 1)", "copy 4 begins; 4 copies"),
        (210, "socket timeout; the driver resends it (D, 1)", "the resend waits for session D; 4 copies"),
        (
            240,
            "socket timeout of the resend; no retries are left: the record is given up (dead letter)",
            "4 copies go on, 4 sends wait for a session",
        ),
    ]
    assert (course.sends, course.copies, course.give_up) == (8, 4, 240)


@pytest.mark.parametrize(
    ("prediction", "sends", "copies", "give_up"),
    [
        (of(socket_timeout=5), 8, 4, 40),
        (of("spring-default", socket_timeout=0.5), 20, 10, 10),
        (of("fixed(1s,3)", socket_timeout=0.5), 8, 4, 7),
        (of(socket_timeout=0.5, retry_writes=False), 4, 4, 2),
        (of(socket_timeout=0.5, explicit_session=True), 8, 1, 4),
        (of(socket_timeout=0.5, explicit_session=True, retry_writes=False), 4, 4, 2),
        (of("fixed(0s,2)", "update-many", socket_timeout=1.5), 3, 3, 4.5),
        (of("none", timeout=3, socket_timeout=0.5), 1, 1, 3),
        (of("fixed(0s,2)", "find-and-modify", socket_timeout=1.5, server=INTERRUPTIBLE), 6, 3, 9),
        (of("fixed(0s,2)", "find-and-modify", socket_timeout=1.5, max_time=0.7, server=INTERRUPTIBLE), 3, 1, 2.1),
        (of("fixed(0s,2)", "find-and-modify", socket_timeout=1.5, max_time=0.7), 6, 3, 6.6),
        (of("fixed(0s,2)", "insert", socket_timeout=1.5, max_time=0.7, server=INTERRUPTIBLE), 6, 3, 9),
        (of("spring-default", "w0", socket_timeout=1), 1, 1, 0),
        (of("none", server=REFUSES), 2, 0, 10),
        (of("none", server=REFUSES, retry_writes=False), 1, 0, 0),
        (of("none", server=REFUSES, timeout=2), None, 0, 2),
        (of(), 1, 1, None),
    ],
)
def test_a_record_comes_to_what_was_measured_or_is_put_together_from_it(
    prediction: Prediction, sends: int | None, copies: int, give_up: float | None
) -> None:
    course = prediction.timeline
    assert (course.sends, course.copies, course.give_up) == (sends, copies, give_up)


@pytest.mark.parametrize(
    ("retry", "consumers", "given", "bounds", "together"),
    [
        ("fixed(0s,3)", 1, {}, Counts(4, 8, 4), Counts(4, 8, 4)),
        ("fixed(0s,3)", 5, {}, Counts(4, 8, 4), Counts(20, 40, 20)),
        ("spring-default", 1, {}, Counts(10, 20, 10), Counts(10, 20, 10)),
        ("spring-default", 3, {}, Counts(10, 20, 10), Counts(30, 60, 30)),
        ("spring-default", 3, {"retry_writes": False}, Counts(10, 10, 10), Counts(30, 30, 30)),
        ("fixed(0s,3)", 2, {"explicit_session": True}, Counts(4, 8, 1), Counts(8, 16, 2)),
        ("fixed(0s,3)", 2, {"timeout": 2.0}, Counts(4, None, 4), Counts(8, None, 8)),
        ("fixed(0s,3)", 2, {"write": "update-many"}, Counts(4, 4, 4), Counts(8, 8, 8)),
        ("fixed(0s,3)", 2, {"write": "w0"}, Counts(1, 1, 1), Counts(2, 2, 2)),
        ("fixed(0s,2)", 1, {"write": "find-and-modify", "max_time": 0.1}, Counts(3, 6, 3), Counts(3, 6, 3)),
    ],
)
def test_bounds_are_of_a_record_and_of_all_consumers(
    retry: str, consumers: int, given: dict[str, Any], bounds: Counts, together: Counts
) -> None:
    prediction = of(retry, **{"socket_timeout": 0.5, "consumers": consumers, **given})
    assert prediction.bounds == bounds
    assert prediction.all_consumers == together


def test_error_50_keeps_the_session_and_a_network_error_does_not() -> None:
    given: dict[str, Any] = {"write": "find-and-modify", "socket_timeout": 1.5, "max_time": 0.7}
    stopped = of("fixed(0s,1)", server=INTERRUPTIBLE, **given).timeline
    assert "sent (A, 2)" in stopped.rows[1].client
    resent = of("fixed(0s,1)", **given).timeline
    assert "sent (B, 1)" in resent.rows[2].client


def test_with_one_session_error_50_ends_the_wait_for_it() -> None:
    course = of("fixed(0s,2)", "find-and-modify", socket_timeout=1.5, max_time=0.7, explicit_session=True).timeline
    assert (course.sends, course.copies, course.give_up) == (4, 1, 3.6)
    assert course.rows[-1].server == "1 copy goes on"


def test_a_session_that_error_50_has_freed_lets_the_next_copy_in() -> None:
    given: dict[str, Any] = {"max_time": 0.7, "explicit_session": True, "server": INTERRUPTIBLE}
    course = of("fixed(0s,1)", "find-and-modify", socket_timeout=1.5, **given).timeline
    assert [row.server for row in course.rows] == ["copy 1 begins", "copy 2 begins", "0 copies"]


def test_copies_that_max_time_ends_too_late_are_the_most_there_can_be() -> None:
    given: dict[str, Any] = {"write": "find-and-modify", "socket_timeout": 1.5, "server": INTERRUPTIBLE}
    assert of("fixed(0s,1)", max_time=2, **given).timeline.rows[-1].server.startswith("up to 2 copies go on")
    assert of("fixed(0s,1)", **given).timeline.rows[-1].server.startswith("2 copies go on")


def test_what_is_not_retryable_is_executed_once() -> None:
    given = frozenset({Failure.TIMEOUT})
    course = of("spring-default", socket_timeout=30, not_retryable=given).timeline
    assert (course.executions, course.sends, course.give_up) == (1, 2, 60)
    assert "not retryable: the record is given up" in course.rows[-1].client
    assert of("spring-default", server=REFUSES, not_retryable=given).timeline.executions == 10


def test_past_the_elapsed_limit_nothing_is_executed_anew() -> None:
    course = of("fixed(1s,9,elapsed=61s)", socket_timeout=30).timeline
    assert (course.executions, course.give_up) == (2, 121)
    assert "no time is left: the record is given up" in course.rows[-1].client
    assert of("fixed(1s,9,elapsed=60s)", socket_timeout=30).timeline.executions == 1


@pytest.mark.parametrize(
    ("records", "interval", "consumers", "needed", "redeliveries"),
    [
        (1, 300, 1, 240, 0),
        (1, 240, 1, 240, 1),
        (1, 239, 1, 240, 1),
        (2, 300, 5, 480, 1),
        (500, 300, 1, 120_000, 1),
        (500, 300, 5, 120_000, 4),
        (4, 300, 10, 960, 3),
    ],
)
def test_a_poll_must_fit_into_its_interval(
    records: int, interval: float, consumers: int, needed: float, redeliveries: int
) -> None:
    prediction = of(
        socket_timeout=30,
        max_poll_records=records,
        max_poll_interval=interval,
        consumers=consumers,
        seek_after_error=False,
    )
    assert (prediction.polls.needed, prediction.polls.redeliveries) == (needed, redeliveries)
    assert prediction.polls.suffices == (needed < interval) == (redeliveries == 0)
    assert prediction.redelivered == Counts(4, 8, 4).times(1 + redeliveries)


def test_waits_count_into_the_interval_that_is_needed() -> None:
    polls = of("exponential(1s,2,10s,5)", socket_timeout=5, max_poll_records=10, seek_after_error=False).polls
    assert (polls.needed, polls.after_error) == (10 * (10 * 6 + 25), None)


def test_a_consumer_that_seeks_back_after_an_error_polls_between_executions() -> None:
    polls = of("exponential(1s,2,10s,5)", socket_timeout=5, max_poll_records=10).polls
    assert (polls.needed, polls.after_error) == (10 * 10 + 10, 20)
    ten = of("spring-default", socket_timeout=30, max_poll_records=1).polls
    assert (ten.needed, ten.suffices, ten.redeliveries) == (60, True, 0)


def test_without_retries_a_consumer_has_nothing_to_seek_back_for() -> None:
    polls = of("none", socket_timeout=5, max_poll_records=10).polls
    assert (polls.needed, polls.after_error) == (100, None)


def test_where_an_execution_never_ends_no_interval_suffices() -> None:
    for consumers in (1, 3):
        polls = of(consumers=consumers).polls
        assert (polls.needed, polls.suffices, polls.redeliveries) == (None, False, consumers - 1)


PLAIN: dict[str, Any] = {"write": "find-and-modify", "socket_timeout": 1.0, "max_poll_records": 1}
"""Nothing to warn of but that the bounds want a warm pool."""


@pytest.mark.parametrize(
    ("name", "retry", "given"),
    [
        ("time-bound", "fixed(1s,3)", {"timeout": 2.0}),
        ("never-gives-up", "fixed(1s,3)", {"socket_timeout": None}),
        ("never-gives-up", "fixed(1s,3)", {"socket_timeout": None, "max_time": 1.0}),
        ("max-time-replaced", "fixed(1s,3)", {"timeout": 2.0, "max_time": 1.0}),
        ("max-time-not-sent", "fixed(1s,3)", {"write": "insert-business-id", "max_time": 0.5}),
        ("max-time-not-below-socket-timeout", "fixed(1s,3)", {"max_time": 1.0}),
        ("max-time-is-no-cancellation", "fixed(1s,3)", {"max_time": 0.5}),
        ("unacknowledged", "fixed(1s,3)", {"write": "w0"}),
        ("multi", "fixed(1s,3)", {"write": "update-many"}),
        ("multi", "fixed(1s,3)", {"write": "delete-many"}),
        ("multi", "fixed(1s,3)", {"write": "bulk-multi"}),
        ("driver-generated-id", "fixed(1s,3)", {"write": "insert"}),
        ("not-idempotent", "fixed(1s,3)", {"write": "inc"}),
        ("older-copy-last", "fixed(1s,3)", {"write": "set"}),
        ("older-copy-last", "fixed(1s,3)", {"write": "replace-upsert"}),
        ("one-batch", "fixed(1s,3)", {"write": "bulk-unordered"}),
        ("zero-back-off", "fixed(0s,3)", {}),
        ("retry-writes-off", "fixed(1s,3)", {"retry_writes": False}),
        ("one-session", "fixed(1s,3)", {"explicit_session": True}),
        ("poll-interval", "fixed(1s,3)", {"max_poll_records": 500}),
    ],
)
def test_settings_are_warned_of(name: str, retry: str, given: dict[str, Any]) -> None:
    assert [one.name for one in of("fixed(1s,3)", **PLAIN).warnings] == ["cold-pool"]
    assert name in [one.name for one in of(retry, **{**PLAIN, **given}).warnings]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("multi", {"write": "update-many"}),
        ("driver-generated-id", {"write": "insert"}),
        ("not-idempotent", {"write": "inc"}),
        ("older-copy-last", {"write": "set"}),
        ("zero-back-off", {}),
    ],
)
def test_without_retries_nothing_is_said_of_copies(name: str, given: dict[str, Any]) -> None:
    assert name not in [one.name for one in of("none", **{**PLAIN, **given}).warnings]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["overload"]),
        ({"timeout": 2.0}, ["timeout", "overload"]),
        ({"timeout": 2.0, "retry_writes": False}, []),
        ({"write": "update-many", "timeout": 2.0}, ["overload"]),
        ({"write": "insert-business-id"}, ["overload", "duplicate-key"]),
        ({"max_time": 0.5}, ["overload", "interrupted"]),
        ({"explicit_session": True}, ["overload", "one-session"]),
        ({"write": "w0"}, []),
    ],
)
def test_rules_that_do_not_hold_are_listed(given: dict[str, Any], names: list[str]) -> None:
    assert [one.name for one in of("fixed(1s,3)", **{**PLAIN, **given}).rules] == names


times = st.floats(0.001, 1e4)
any_settings = st.builds(
    Settings,
    policy=st.sampled_from(
        ["none", "fixed(0s,3)", "spring-default", "exponential(1s,2,10s,30,jitter=0.5)", "fixed(1s,40,elapsed=20s)"]
    ).map(parse),
    write=st.sampled_from([write for write in WRITES.values() if write.acknowledged]),
    socket_timeout=st.none() | times,
    connect_timeout=st.none() | times,
    timeout=st.none() | times,
    max_time=st.none() | times,
    retry_writes=st.booleans(),
    explicit_session=st.booleans(),
    not_retryable=st.frozensets(st.sampled_from(Failure)),
    consumers=st.integers(1, 50),
    max_poll_records=st.integers(1, 1000),
    max_poll_interval=times,
    session_timeout=times,
    server=st.sampled_from(Server),
)


@given(any_settings)
def test_no_course_goes_past_the_bounds(settings: Settings) -> None:
    prediction = predict(settings)
    course, bounds = prediction.timeline, prediction.bounds
    assert 1 <= course.executions <= bounds.executions
    assert course.copies <= bounds.copies
    assert bounds.sends is None or (course.sends is not None and course.executions <= course.sends <= bounds.sends)
    assert [row.at for row in course.rows] == sorted(row.at for row in course.rows)
    assert course.give_up is None or course.rows[-1].at == course.give_up
    assert prediction.polls.suffices == (prediction.polls.redeliveries == 0 and prediction.polls.needed is not None)


@given(any_settings)
def test_a_record_takes_its_executions_and_its_waits(settings: Settings) -> None:
    course = predict(settings).timeline
    seconds = [execution(settings, number).seconds for number in range(1, course.executions + 1)]
    if course.give_up is None:
        assert seconds[-1] is None
    else:
        waits = settings.policy.waits[: course.executions - 1]
        assert course.give_up == pytest.approx(sum(one or 0 for one in seconds) + sum(waits), abs=1e-3)


@given(any_settings)
def test_each_note_has_its_ground_and_all_of_it_is_json(settings: Settings) -> None:
    prediction = predict(settings)
    grounds = [one.ground for one in prediction.warnings] + [one.ground for one in prediction.rules]
    assert all(ground.startswith(("measured on 6.0.5: ", "not measured: ")) for ground in grounds)
    names = [one.name for one in prediction.warnings]
    assert len(names) == len(set(names))
    for document in (prediction.plain(), prediction.recorded()):
        assert json.loads(json.dumps(document)) == document


def test_the_record_of_a_run_holds_what_a_record_may_come_to() -> None:
    recorded = of(socket_timeout=30, consumers=5).recorded()
    assert {name: recorded[name] for name in ("executions", "sends", "copies", "give_up")} == {
        "executions": 4,
        "sends": 8,
        "copies": 4,
        "give_up": 240,
    }
    assert [one["name"] for one in recorded["rules"]] == ["overload"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeout": 0}, "timeoutMS 0 is no time limit"),
        ({"socket_timeout": 0}, "socketTimeoutMS: expected more than 0 s, found 0 s"),
        ({"max_time": -1.5}, "maxTimeMS: expected more than 0 s, found -1.5 s"),
        ({"max_time": 0.0003}, "maxTimeMS: expected at least 1 ms, the least that is sent or kept; found 0.0003 s"),
        ({"max_poll_interval": 0}, "max.poll.interval.ms: expected more than 0 s"),
        ({"consumers": 0}, "consumers: expected at least 1, found 0"),
        ({"max_poll_records": 0}, "max.poll.records: expected at least 1, found 0"),
        ({"write": "w0", "explicit_session": True}, "unacknowledged write in an explicit session"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        of(**given)


def test_defaults_are_the_drivers_own() -> None:
    settings = Settings(parse("none"))
    assert settings.connect_timeout == common.CONNECT_TIMEOUT
    assert settings.socket_timeout is None
    assert settings.retry_writes == common.RETRY_WRITES


@pytest.mark.parametrize(
    ("method", "takes"),
    [
        ("insert_one", False),
        ("update_one", False),
        ("replace_one", False),
        ("bulk_write", False),
        ("update_many", False),
        ("delete_many", False),
        ("find_one_and_update", True),
    ],
)
def test_the_driver_takes_max_time_for_find_and_modify_alone(method: str, takes: bool) -> None:
    kinds = [one.kind for one in inspect.signature(getattr(AsyncCollection, method)).parameters.values()]
    assert (inspect.Parameter.VAR_KEYWORD in kinds) == takes
    assert [name for name, write in WRITES.items() if write.takes_max_time] == ["find-and-modify"]
