"""The live view: what is gathered of a run, and how it looks on terminals of several sizes."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from harness.history import Event
from harness.report.scene import WELL, Fault, Gathering, Rates, Scene
from harness.report.screen import LEAST, draw

ALARM: dict[str, Any] = {
    "since": 0, "after_seconds": 3.1, "waits_for": "shard0-2", "known_by": "canary: no find", "canary": {},
    "getmore": {"member": "shard0-1", "opid": 7, "seconds": 2.2, "max_time_ms": 1000},
}  # fmt: skip


def gathered(*events: tuple[float, str, dict[str, Any]], now: float = 10.0) -> Scene:
    gathering = Gathering()
    for at, kind, fields in events:
        gathering.feed(Event(round(at * 1e9), 0.0, "run", kind, fields))
    return gathering.scene("hold", 4.2, now)


def full() -> Scene:
    """As a run at full size has it on its worst day."""
    streams, members, faults, alarms = 32, 18, 9, 12
    return Scene(
        title="update-lookup-stall",
        phase="hold",
        left=12.34,
        now=75,
        streams={"silent": streams - 3, "delivering": 3},
        members={
            **{f"shard0-{number}": WELL for number in range(members - 1)},
            f"shard0-{members - 1}": "no aggregate, causal, find, hello",
        },
        faults=[Fault(f"freeze on shard0-{number}", "healed", number) for number in range(faults)],
        alarms=[f"ALARM stream s{number} silent for 3.1 s: getMore on shard0-1 runs 2.2 s" for number in range(alarms)],
        rates={"writes": 123.4, "events": 56.78},
    )


def drawn(scene: Scene, width: int, height: int) -> list[str]:
    """As a terminal of that size shows it."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(draw(scene, width, height))
    shown: str = console.file.getvalue()  # type: ignore[attr-defined]
    return shown.removesuffix("\n").split("\n")


def test_what_stands_on_an_ordinary_terminal() -> None:
    head, streams, members, *rest = drawn(full(), 80, 24)
    assert head == " hold  12.3 s left  1:15  123 writes/s  56.8 events/s  update-lookup-stall"
    assert streams == "streams  3 delivering  29 silent"
    assert members == "members  shard0-17: no aggregate, causal, find, hello  17 answer"
    assert rest[0] == "faults   freeze on shard0-6: healed, 69 s  (and 6 before)"
    assert [line[:7].strip() for line in rest].index("alarms") == 3
    assert rest[-1].startswith("         stream s11 silent for 3.1 s")
    assert rest[-1].endswith("…") or len(rest[-1]) < 80


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (132, 50), (200, 60), (40, 10), (20, 5)])
def test_it_fits_into_its_half_of_the_terminal_whatever_its_size(width: int, height: int) -> None:
    lines = drawn(full(), width, height)
    assert len(lines) <= max(LEAST, height // 2)
    assert all(cell_len(line) <= width for line in lines)


@given(width=st.integers(5, 250), height=st.integers(1, 80), name=st.text(max_size=30))
def test_nothing_that_is_in_a_name_breaks_a_line(width: int, height: int, name: str) -> None:
    scene = Scene(name, name, None, 1.0, {name: 1}, {name: name}, [Fault(name, "proven", 0)], [name], {name: 1.0})
    lines = draw(scene, width, height).plain.split("\n")
    assert len(lines) <= max(LEAST, height // 2)
    assert all(cell_len(line) <= width for line in lines)


def test_a_higher_terminal_shows_more_of_what_happened() -> None:
    assert len(drawn(full(), 80, 50)) > len(drawn(full(), 80, 24)) > len(drawn(full(), 80, 10))


def test_what_is_wrong_is_gathered_from_the_events_of_a_run() -> None:
    scene = gathered(
        (0, "stream.opened", {"stream": "s1"}),
        (0, "stream.opened", {"stream": "s2"}),
        (1, "fault.opened", {"id": "f1", "fault": "freeze", "options": ["how=signal"], "target": "shard0-2"}),
        (2, "fault.proven", {"id": "f1", "evidence": {}}),
        (3, "canary", {"member": "shard0-0", "probe": "find", "ok": True}),
        (3, "canary", {"member": "shard0-2", "probe": "find", "ok": False}),
        (4, "stream.state", {"stream": "s1", "state": "silent"}),
        (4, "alarm", {"stream": "s1", **ALARM}),
        (4, "alarm", {"stream": "s2", **ALARM}),
        (5, "copies", {"member": "shard0-0", "namespace": "a.b", "ops": 6, "copies": 3}),
        (9, "write.ok", {}),
    )
    assert scene.streams == {"silent": 1, "quiet": 1}
    assert scene.members == {"shard0-0": WELL, "shard0-2": "no find"}
    assert scene.faults == [Fault("freeze how=signal on shard0-2", "proven", 2.0)]
    assert [one.partition(" silent")[0] for one in scene.alarms] == ["ALARM 2 streams (s1, s2)"]
    assert scene.copies == 3
    assert scene.rates == {"writes": 0.2}


def test_what_is_over_is_said_to_be_over() -> None:
    scene = gathered(
        (1, "fault.opened", {"id": "f1", "fault": "freeze", "target": "a"}),
        (2, "alarm", {"stream": "s1", **ALARM}),
        (3, "fault.healed", {"id": "f1"}),
        (3, "canary", {"member": "a", "probe": "find", "ok": False}),
        (4, "canary", {"member": "a", "probe": "find", "ok": True}),
        (4, "alarm.cleared", {"stream": "s1"}),
        (5, "copies", {"member": "b", "namespace": None, "ops": None, "copies": None}),
    )
    assert scene.alarms[0].startswith("over: ALARM stream s1")
    assert scene.faults == [Fault("freeze on a", "healed", 3.0)]
    assert scene.members == {"a": WELL, "b": "no answer"}


def test_rates_are_of_the_last_whole_seconds() -> None:
    rates = Rates()
    for at in (0.1, 0.5, 1.2, 7.0, 7.9, 8.5):
        rates.count("writes", at)
    assert rates.at(8.6) == {"writes": 2 / 5}
    assert rates.at(30) == {"writes": 0}
