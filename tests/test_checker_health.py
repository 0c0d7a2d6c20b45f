"""The health checker: what hello, heartbeats and monitors said of the target while it was held."""

from __future__ import annotations

from typing import Any

from harness.checkers import health
from harness.checkers.finding import Finding
from harness.history import Event
from harness.verdict import check_history
from history_builder import History, a_run, judged

STALL = {"s1": [(6.3, 19.1)], "s2": [(6.3, 19.1)]}
TARGET = "shard0-2"
HOLD = range(7, 18)


def looked_at(
    *, hello: dict[int, bool] | None = None, failing: dict[str, range] | None = None, sources: Any = None
) -> History:
    """Looks once a second during the hold; `hello` and `failing` (by source) say when it was not well."""
    history = a_run(silent=STALL)
    for stream in STALL:
        history.add(9.5, "alarm", stream=stream, since=6_310_000_000, after_seconds=3.2, waits_for=TARGET)
    for t in HOLD:
        if hello is None or t in hello:
            ok = hello is None or hello[t]
            history.add(t, "canary", member=TARGET, probe="hello", ok=ok, seconds=0.01, error=None, parked=False)
        history.add(t, "canary", member=TARGET, probe="aggregate", ok=False, seconds=2.0, error="no", parked=True)
        for source in ("heartbeats", "monitor") if sources is None else sources:
            bad = t in (failing or {}).get(source, ())
            history.add(
                t + 0.1, "peers", source, member="shard0-1", set="shard0",
                healthy=["shard0-0", *([] if bad else [TARGET])], failing={TARGET: "not ok"} if bad else {},
            )  # fmt: skip
    return history


def sparing(history: History, spares: bool | None) -> list[Event]:
    events = history.events()
    for event in events:
        if event.kind == "fault.opened" and spares is not None:
            event.fields["spares_health"] = spares
    return events


def found(history: History) -> Finding:
    finding = judged(health, sparing(history, True))
    assert finding is not None
    return finding


def test_a_target_that_all_found_healthy_is_so_and_every_look_is_counted() -> None:
    finding = found(looked_at())
    assert finding.valid is True
    (row,) = finding.evidence["targets"]
    assert row["hello"] == {"looks": len(HOLD), "healthy": len(HOLD)}
    assert row["heartbeats"] == row["monitor"] == {"by": ["shard0-1"], "looks": len(HOLD), "healthy": len(HOLD)}
    assert row["probes"]["aggregate"] == {"looks": len(HOLD), "healthy": 0}


def test_a_hello_that_stays_away_is_not_healthy_and_one_that_is_late_once_is() -> None:
    late = found(looked_at(hello={t: t != 9 for t in HOLD}))
    assert late.valid is True
    # Parked, a probe is not repeated: nothing more is heard of it.
    away = found(looked_at(hello={7: True, 8: False}))
    assert away.valid is False
    assert away.evidence["problems"] == ["shard0-2 did not answer hello for 10.1 s of the hold"]


def test_a_monitor_or_heartbeats_that_fail_are_told_with_the_time() -> None:
    finding = found(looked_at(failing={"monitor": range(15, 18), "heartbeats": range(16, 18)}))
    assert finding.evidence["problems"] == [
        "shard0-2 failing by the heartbeats of shard0-1 from 16.100 s on, in 2 of 11 looks",
        "shard0-2 failing by the monitor of shard0-1 from 15.100 s on, in 3 of 11 looks",
    ]


def test_monitors_are_those_of_the_members_whose_lookups_wait() -> None:
    history = looked_at()
    history.add(12.5, "peers", "monitor", member="shard1-0", set="shard0", healthy=[], failing={TARGET: "not ok"})
    assert found(history).valid is False
    for stream in ("s1", "s2"):
        history.add(
            16.0, "getmore", "currentOp", member="shard0-1", opid=7, seconds=9.0, max_time_ms=1000, stream=stream
        )
    assert found(history).valid is True


def test_where_nobody_looked_it_is_unknown_and_so_is_a_run_that_was_to_show_it() -> None:
    finding = found(looked_at(sources=["heartbeats"]))
    assert finding.valid == "unknown"
    _findings, verdict = check_history(sparing(looked_at(sources=["heartbeats"]), True))
    assert verdict.verdict == "unknown"
    assert verdict.reasons == ("health: nobody looked at shard0-2 during the hold: no monitor",)


def test_under_a_fault_that_does_not_spare_it_the_target_is_shown_as_it_was() -> None:
    events = sparing(looked_at(hello={7: False}), False)
    finding = judged(health, events)
    assert finding is not None
    assert (finding.valid, finding.evidence["demanded"]) == (False, False)
    assert check_history(events)[1].verdict == "as expected"
    assert check_history(sparing(looked_at(hello={7: False}), True))[1].verdict == "not as expected"


def test_a_record_that_does_not_say_what_the_fault_spares_has_nothing_to_be_judged() -> None:
    assert judged(health, sparing(looked_at(), None)) is None
