"""The durability checker: what was acknowledged is there at the end, and nothing that nobody sent."""

from __future__ import annotations

import pytest

from harness.checkers import durability
from harness.history import INTERRUPTED
from history_builder import History, a_run, judged


def last(history: History) -> dict[str, int]:
    """By document, the highest sequence written."""
    found: dict[str, int] = {}
    for event in history.events():
        if event.kind == "write.ok":
            found[event["key"]] = max(event["seq"], found.get(event["key"], 0))
    return found


def counted(history: History, **changed: int | None) -> History:
    documents = {**last(history), **changed}
    history.add(24.9, "census", documents=[[key, seq] for key, seq in documents.items() if seq is not None])
    return history


def test_every_document_at_its_last_acknowledged_write_is_valid() -> None:
    finding = judged(durability, counted(a_run()).events())
    assert finding is not None
    assert (finding.valid, finding.evidence["documents"], finding.evidence["problems"]) == (True, 4, [])


def test_without_a_census_nothing_is_said() -> None:
    assert judged(durability, a_run().events()) is None


def test_an_acknowledged_write_that_is_not_there_is_a_loss() -> None:
    history = a_run()
    before = last(history)["shard0-k0"]
    finding = judged(durability, counted(history, **{"shard0-k0": before - 1}).events())
    assert finding is not None
    assert finding.valid is False
    (problem,) = finding.evidence["problems"]
    assert problem.startswith(f"document 'shard0-k0' is at {before - 1}; its write {before} was acknowledged at 19.")


def test_a_document_that_is_gone_is_a_loss() -> None:
    finding = judged(durability, counted(a_run(), **{"shard1-k1": None}).events())
    assert finding is not None
    assert finding.valid is False
    assert finding.evidence["problems"][0].startswith("document 'shard1-k1' is gone")


@pytest.mark.parametrize("outcome", ["unknown", "failed", None])
def test_a_write_that_was_sent_without_an_acknowledgement_may_be_there_or_not(outcome: str | None) -> None:
    for more in (0, 1):
        history = a_run()
        seq = last(history)["shard0-k0"]
        history.write(21.0, "shard0-k0", seq + 1, outcome=outcome)
        finding = judged(durability, counted(history, **{"shard0-k0": seq + more}).events())
        assert finding is not None
        assert finding.valid is True


def test_a_document_at_a_write_that_nobody_sent_is_a_finding() -> None:
    history = a_run()
    seq = last(history)["shard0-k0"]
    finding = judged(durability, counted(history, **{"shard0-k0": seq + 1}).events())
    assert finding is not None
    assert finding.valid is False
    assert finding.evidence["problems"] == [f"document 'shard0-k0' is at {seq + 1}, which nobody wrote"]


def test_of_a_run_cut_short_it_is_unknown() -> None:
    finding = judged(durability, counted(a_run(ended=INTERRUPTED)).events())
    assert finding is not None
    assert finding.valid == "unknown"
