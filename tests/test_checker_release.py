"""The release checker: each stalled stream freed as its release frees one, with exactly the errors that go with it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import release
from harness.history import Event
from harness.verdict import check_history
from history_builder import HEALED, RELEASE, History, a_run, judged


def run(how: str, *, freed: float = HEALED - 0.05) -> History:
    history = a_run(streams=["s1"], silent={"s1": [(6.3, freed)]}, parameters={"release": how})
    history.add(9.5, "alarm", stream="s1", since=6_310_000_000, after_seconds=3.2, waits_for="shard0-2")
    return history


def killed_op(history: History, *, code: int = 11601, labels: tuple[str, ...] = ()) -> History:
    fields: dict[str, Any] = {"code": code, "code_name": "Interrupted", "labels": list(labels), "where": "next"}
    history.add(RELEASE + 0.01, "stream.error", stream="s1", error="OperationFailure: interrupted", **fields)
    history.add(RELEASE + 0.02, "stream.resumed", stream="s1", by="consumer", token="t")
    return history


def by_driver(history: History) -> History:
    history.add(RELEASE + 0.02, "stream.resumed", stream="s1", by="driver", token="t", code=6)
    return history


def found(history: History) -> dict[str, Any]:
    finding = judged(release, history.events())
    assert finding is not None
    return {"valid": finding.valid, "problems": finding.evidence["problems"]}


GOOD = {"valid": True, "problems": []}


def test_healing_frees_a_stream_without_a_word_to_anybody() -> None:
    assert found(run("heal", freed=19.1)) == GOOD
    assert found(killed_op(run("heal", freed=19.1)))["problems"] == [
        "stream s1: expected no error after heal, found errors with codes 11601"
    ]


def test_a_killed_member_makes_the_driver_resume_and_its_consumer_sees_nothing() -> None:
    assert found(by_driver(run("kill-member"))) == GOOD
    assert found(run("kill-member"))["problems"] == ["stream s1: the driver did not resume it"]
    assert found(killed_op(by_driver(run("kill-member")), code=6))["problems"] == [
        "stream s1: expected no error after kill-member, found errors with codes 6"
    ]


def test_a_killed_operation_is_one_error_without_a_label_and_the_consumer_opens_again() -> None:
    assert found(killed_op(run("kill-op"))) == GOOD
    assert found(killed_op(killed_op(run("kill-op"))))["problems"] == [
        "stream s1: expected errors with codes 11601 after kill-op, found errors with codes 11601, 11601"
    ]
    assert found(run("kill-op"))["problems"] == [
        "stream s1: expected errors with codes 11601 after kill-op, found no error",
        "stream s1: the consumer did not open it again",
    ]
    assert found(killed_op(run("kill-op"), labels=("ResumableChangeStreamError",)))["problems"] == [
        "stream s1: expected an error without labels, found ResumableChangeStreamError"
    ]


@pytest.mark.parametrize("how", ["kill-member", "kill-op"])
def test_a_stream_that_moved_only_after_the_healing_was_not_freed_by_the_release(how: str) -> None:
    history = run(how, freed=HEALED + 0.1)
    killed_op(history) if how == "kill-op" else by_driver(history)
    assert found(history)["problems"] == [f"stream s1: not freed by {how}, but by the healing after it"]


def test_a_release_that_frees_nobody_is_not_as_expected() -> None:
    _findings, verdict = check_history(run("kill-member").events())
    assert verdict.verdict == "not as expected"
    assert verdict.reasons == ("release: stream s1: the driver did not resume it",)


def test_where_nothing_stalled_a_release_has_nobody_to_free() -> None:
    events: list[Event] = a_run(streams=["s1"], parameters={"release": "kill-op"}).events()
    assert judged(release, events) is None


def test_how_each_stream_was_freed_is_told() -> None:
    finding = judged(release, killed_op(run("kill-op")).events())
    assert finding is not None
    (row,) = finding.evidence["streams"]
    assert row["freed_after"] == pytest.approx(HEALED - 0.05 - RELEASE, abs=0.01)
    assert (row["error_count"], row["resumed_by_driver"], row["resumed_by_consumer"]) == (1, 0, 1)
    assert finding.evidence["freed_by"] == "the consumer's resume"
