"""Whether a maxTimeMS ended the writes in the server, told from how the executions ended. Without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from attempts_parts import Attempted, Copy
from harness.checkers import cut
from harness.checkers.finding import Finding
from history_builder import judged

WRITE = "t/0/0"
EXPIRED = 50
SETTINGS: dict[str, Any] = {"fault": "lock-wait", "max_time": 0.7, "driver_option": ["socketTimeoutMS=1500"]}

Ended = tuple[int, int | None, int]
"""How an execution came to its end: sends, code, copies that ran until after the last."""
CUT: Ended = (1, EXPIRED, 0)
BY_THE_RESEND: Ended = (2, EXPIRED, 1)
TIMED_OUT: Ended = (2, None, 1)


def examined(*ended: Ended, **parameters: Any) -> Finding | None:
    history = Attempted(**{"write": "find-and-modify", **SETTINGS, **parameters})
    for number, (sends, code, copies) in enumerate(ended, 1):
        ran = [Copy(number * 1.0, 60.0)] * copies
        history.execution(WRITE, number, number * 1.0, ran, sends=sends, code=code, command="findAndModify")
    history.log()
    return judged(cut, history.events())


@pytest.mark.parametrize(
    ("ended", "fault", "is_cut", "valid"),
    [
        ([CUT] * 3, "lock-wait", "yes", True),
        ([CUT] * 3, "fail-point", "yes", True),
        ([BY_THE_RESEND] * 3, "fail-point", "no", True),
        ([BY_THE_RESEND] * 3, "no-tickets", "no", False),
        ([TIMED_OUT] * 3, "freeze", "no", True),
        ([TIMED_OUT] * 3, "lock-wait", "no", False),
        ([CUT, CUT, TIMED_OUT], "write-conflict", "in part", True),
        ([CUT, CUT, TIMED_OUT], "lock-wait", "in part", False),
        ([(1, EXPIRED, 1)] * 3, "lock-wait", "in part", False),
    ],
)
def test_it_cut_where_each_first_send_ended_with_error_50_and_no_two_copies_ran_at_once(
    ended: list[Ended], fault: str, is_cut: str, valid: bool
) -> None:
    finding = examined(*ended, fault=fault)
    assert finding is not None
    assert (finding.evidence["cut"], finding.valid) == (is_cut, valid)
    assert bool(finding.evidence["problems"]) is not valid


def test_an_error_50_of_the_resend_is_told_apart_from_one_of_the_first_send() -> None:
    finding = examined(CUT, BY_THE_RESEND, TIMED_OUT, TIMED_OUT, fault="fail-point")
    assert finding is not None
    names = ("held", "ended_on_first_send", "ended_on_resend", "timed_out", "copies_at_once")
    assert [finding.evidence[name] for name in names] == [4, 1, 1, 2, 3]


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_time": None},
        {"max_time": 1.5},
        {"fault": "none"},
    ],
)
def test_it_is_not_asked_without_a_fault_or_a_limit_that_comes_before_the_drivers_own(
    parameters: dict[str, Any],
) -> None:
    assert examined(CUT, **parameters) is None


def test_a_driver_that_waits_for_ever_is_one_whose_limit_comes_later() -> None:
    finding = examined(CUT, driver_option=[])
    assert finding is not None
    assert (finding.evidence["cut"], finding.evidence["socket_timeout"]) == ("yes", None)


def test_where_no_execution_was_held_nothing_is_known() -> None:
    history = Attempted(write="find-and-modify", **SETTINGS)
    history.execution(WRITE, 1, 1.0, [Copy(1.0, 1.1)], sends=1, outcome="ok", effect=True)
    history.log()
    finding = judged(cut, history.events())
    assert finding is not None
    assert (finding.valid, finding.evidence["cut"]) == ("unknown", None)


@pytest.mark.parametrize(("max_time", "valid"), [(0.6, True), (0.5, False)])
def test_a_wait_for_a_ticket_is_looked_at_each_half_second_and_so_a_shorter_time_limit_of_the_driver_comes_first(
    max_time: float, valid: bool
) -> None:
    given: dict[str, Any] = {"fault": "no-tickets", "max_time": max_time, "driver_option": ["socketTimeoutMS=800"]}
    finding = examined(TIMED_OUT, **given)
    assert finding is not None and finding.valid is valid
    sooner = examined(TIMED_OUT, **{**given, "driver_option": ["socketTimeoutMS=400"], "max_time": 0.2})
    assert sooner is not None and sooner.valid is True
