"""Which cluster a test wants: the marker's arguments over the project's settings, refusals in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from clusters.errors import Refused
from harness.history import Event
from harness.plugin.records import told
from harness.plugin.wanted import Wanted, wanted

DEFAULTS = Wanted(shards=1, members=3)


@pytest.mark.parametrize(
    ("markers", "found"),
    [
        ([], DEFAULTS),
        ([{}], DEFAULTS),
        ([{"shards": 2}], Wanted(2, 3)),
        ([{"shards": 0, "members": 5}], Wanted(0, 5)),
        ([{"members": 5, "version": "6.0"}, {"members": 1}], Wanted(1, 1, "6.0")),
        ([{"version": "6.0"}, {"version": None}], DEFAULTS),
        ([{"proxied": True}], Wanted(1, 3, proxied=True)),
    ],
)
def test_the_inner_marker_goes_before_the_outer_one_and_both_before_the_settings(
    markers: list[Mapping[str, Any]], found: Wanted
) -> None:
    assert wanted(DEFAULTS, [((), one) for one in markers]) == found


@pytest.mark.parametrize(
    ("positional", "named", "said"),
    [
        ((2,), {}, r"mongofault\(2\): it takes members=.., proxied=.., shards=.., version=.."),
        ((), {"shard": 2}, r"mongofault\(shard=..\): it takes members=.., proxied=.."),
        ((), {"provider": "compose"}, "it takes members="),
        ((), {"shards": -1}, r"shards=-1\): expected a whole number, 0 or more"),
        ((), {"members": 0}, "expected a whole number, 1 or more"),
        ((), {"members": True}, "expected a whole number, 1 or more"),
        ((), {"members": "3"}, "expected a whole number, 1 or more"),
        ((), {"version": 6.0}, "expected text, such as '6.0'"),
        ((), {"proxied": 1}, "expected True or False"),
    ],
)
def test_a_marker_that_cannot_be_is_refused_with_what_it_takes(
    positional: tuple[Any, ...], named: Mapping[str, Any], said: str
) -> None:
    with pytest.raises(Refused, match=said):
        wanted(DEFAULTS, [(positional, named)])


@pytest.mark.parametrize(
    ("what", "sets"), [(Wanted(2, 3), [1, 3, 3, 1]), (Wanted(0, 5), [5]), (Wanted(1, 1, "6.0"), [1, 1, 1])]
)
def test_a_topology_has_what_was_wanted(what: Wanted, sets: list[int]) -> None:
    topology = what.topology()
    assert [len(one.members) for one in topology.sets()] == sets
    assert topology.settings.server_version == what.version


def test_a_report_tells_each_fault_with_its_proof_and_each_silent_stream_with_whom_it_waits_for() -> None:
    lines: list[tuple[str, dict[str, Any]]] = [
        ("fault.opened", {"fault": "freeze", "target": "rs0-1", "id": "a"}),
        ("fault.opened", {"fault": "kill", "target": "rs0-2", "id": "b"}),
        ("fault.proven", {"id": "a", "evidence": {"statement": "it stands still"}}),
        ("fault.unproven", {"id": "b", "reason": "it ran on"}),
        ("alarm", {"stream": "orders", "waits_for": None, "known_by": None}),
        ("alarm", {"stream": "orders", "waits_for": "rs0-1", "known_by": "canary", "update": True}),
        ("fault.healed", {"id": "a"}),
        ("fault.not_healed", {"id": "b", "reason": "no answer"}),
    ]
    assert list(told([Event(t, 0.0, "test", kind, fields) for t, (kind, fields) in enumerate(lines)])) == [
        "fault: freeze on rs0-1, proven: it stands still, healed",
        "fault: kill on rs0-2, not proven: it ran on, not healed",
        "silent: orders, waits for rs0-1 (canary)",
    ]
