"""A long history of retried writes is judged in seconds, about as many as it takes to write and read it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest

from attempts_parts import Attempted, answered, hung
from harness import result
from harness.history import Event

RECORDS = 25_000
EXECUTIONS = 4
AT_MOST = 2.0
"""Of the time that the events take to become JSON and come back from it; 0.9 measured. Machines differ, and one does
from hour to hour."""


def long_history() -> Attempted:
    """Every record is executed, and sent twice, as often as it is allowed to be, and given up."""
    history = Attempted(write="insert", consumers=10, records=RECORDS)
    history.add(0.2, "predicted", executions=4, sends=8, copies=4, give_up=40.0, rules=[], warnings=[])
    documents = []
    for number in range(RECORDS):
        name = f"orders/{number % 10}/{number // 10}"
        for execution in range(1, EXECUTIONS + 1):
            history.execution(name, execution, (execution - 1) * 10.0, [hung(execution), answered()], seconds=9.0)
            documents.append({"write": name, "execution": execution})
        history.add(80.0, "record", write=name, what="dead", consumer="c1", detail=None)
    history.log()
    history.counters(total=2 * EXECUTIONS * RECORDS, retried=EXECUTIONS * RECORDS)
    history.tapped(2 * EXECUTIONS * RECORDS, unanswered=2 * EXECUTIONS * RECORDS)
    history.effects(*documents)
    return history


def written_and_read(events: Sequence[Event]) -> float:
    """Seconds of this process's time."""
    began = time.process_time()
    for event in events:
        json.loads(json.dumps({"t": event.t, "kind": event.kind, **event.fields}))
    return time.process_time() - began


@pytest.mark.matrix
@pytest.mark.slow
def test_a_hundred_thousand_executions_are_judged_about_as_fast_as_they_are_read() -> None:
    events = long_history().events()
    events[0].fields.update(seed=1, server={"version": "6.0.5", "router": "none"}, expected=["maximum"])
    began = time.process_time()
    found = result.of(events, "somewhere")
    seconds = time.process_time() - began
    assert found.headline == "as expected: maximum"
    (totals,) = [one.evidence["totals"] for one in found.findings if one.name == "overlap"]
    assert totals["executions"] == EXECUTIONS * RECORDS == totals["copies"]
    assert seconds < AT_MOST * written_and_read(events)
