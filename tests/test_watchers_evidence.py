"""What the watchers make of the servers' answers, and when that is an alarm. From tables, no server."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.topology import Role
from harness.history import Event
from harness.watchers.alarms import Alarms, Evidence
from harness.watchers.canary import ROUTER, Probe, View
from harness.watchers.currentop import GetMore, Lookup, read_ops, read_router
from harness.watchers.peers import by_heartbeats, by_monitors
from harness.watchers.pools import in_use
from harness.watchers.progress import State, StreamState
from harness.watchers.tokens import Tokens, token_seconds
from harness.watchers.watched import WatchedMember

RUN = "r1"
COMMENT = {"run": RUN, "stream": "s1"}
MEMBERS = [
    WatchedMember(f"{name}-{index}", f"127.0.0.1:{port + index}", Role.SHARD, name)
    for name, port in (("shard0", 20_000), ("shard1", 21_000))
    for index in range(3)
]


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def getmore_op(**changes: Any) -> dict[str, Any]:
    """As `$currentOp` of 6.0.5 shows the getMore of a change stream."""
    op = {
        "opid": 1165,
        "microsecs_running": 7_867_855,
        "ns": "app.orders",
        "command": {"getMore": 5, "collection": "orders", "maxTimeMS": 1000, "comment": COMMENT, "$db": "app"},
        "cursor": {"tailable": True, "originatingCommand": {"comment": COMMENT}},
    }
    return {**op, **changes}


def test_a_getmore_of_a_stream_is_read_with_its_time_limit_and_comment() -> None:
    (getmore,), lookups = read_ops("shard1-0", [getmore_op()], RUN, ns(1))
    assert (getmore.stream, getmore.opid, getmore.seconds, getmore.max_time_ms) == ("s1", 1165, 7.868, 1000)
    assert getmore.overdue == pytest.approx(6.868)
    assert lookups == []


@pytest.mark.parametrize(
    ("what", "op", "found"),
    [
        ("of replication", getmore_op(ns="local.oplog.rs"), []),
        ("of an ordinary cursor", getmore_op(cursor={"tailable": False}), []),
        ("comment on the cursor only", getmore_op(command={"getMore": 5, "maxTimeMS": 1000}), ["s1"]),
        ("of somebody else", getmore_op(command={"getMore": 5, "comment": "theirs"}), [None]),
        ("of another run", getmore_op(command={"getMore": 5, "comment": {"run": "r2", "stream": "s1"}}), [None]),
    ],
)
def test_getmores_are_told_apart(what: str, op: dict[str, Any], found: list[str | None]) -> None:
    getmores, _ = read_ops("shard1-0", [op], RUN, 0)
    assert [one.stream for one in getmores] == found, what


def test_a_lookup_is_the_aggregate_with_the_streams_comment_that_opens_no_stream() -> None:
    lookup: dict[str, Any] = {"opid": 7, "microsecs_running": 5_000_000, "ns": "app.$cmd", "command": {
        "aggregate": "orders", "pipeline": [{"$match": {"_id": 1}}], "comment": COMMENT,
    }}  # fmt: skip
    opening = {**lookup, "command": {**lookup["command"], "pipeline": [{"$changeStream": {}}]}}
    canary = {**lookup, "command": {**lookup["command"], "comment": {"run": RUN, "canary": "aggregate"}}}
    getmores, lookups = read_ops("shard1-1", [lookup, opening, canary], RUN, 0)
    assert getmores == []
    assert [(one.member, one.opid, one.stream) for one in lookups] == [("shard1-1", 7, "s1")]


def test_the_routers_table_names_members_by_host() -> None:
    entry = {"comment": COMMENT, "shard": "shard1", "member": "127.0.0.1:21000", "seconds": 4.2, "maxTimeMS": 999}
    (getmore,) = read_router([entry], RUN, 0, {"127.0.0.1:21000": "shard1-0"})
    assert (getmore.member, getmore.stream, getmore.source) == ("shard1-0", "s1", "router")
    assert getmore.overdue == pytest.approx(3.201)


def test_heartbeats_say_of_every_other_member_whether_it_is_well() -> None:
    status = {"members": [
        {"name": "a:1", "health": 1.0, "stateStr": "PRIMARY", "self": True},
        {"name": "b:1", "health": 1.0, "stateStr": "SECONDARY"},
        {"name": "c:1", "health": 0.0, "stateStr": "(not reachable/healthy)"},
        {"name": "d:1", "health": 1.0, "stateStr": "RECOVERING"},
    ]}  # fmt: skip
    assert by_heartbeats(status) == {"b:1": "", "c:1": "(not reachable/healthy)", "d:1": "RECOVERING"}


def test_monitors_say_of_every_set_that_is_routed_to_who_is_ok() -> None:
    stats = {
        "pools": {},
        "replicaSets": {"shard0": {"hosts": [{"addr": "a:1", "ok": True}, {"addr": "b:1", "ok": False}]}},
    }
    assert by_monitors(stats) == {"shard0": {"a:1": "", "b:1": "not ok"}}
    assert by_monitors({"pools": {}}) == {}


def test_connections_in_use_are_summed_over_the_executor_pools_only() -> None:
    reply = {"pools": {
        "NetworkInterfaceTL-TaskExecutorPool-0": {"poolInUse": 3, "a:1": {"inUse": 3}, "b:1": {"inUse": 0}},
        "NetworkInterfaceTL-TaskExecutorPool-1": {"poolInUse": 1, "a:1": {"inUse": 1}},
        "NetworkInterfaceTL-ReplNetwork": {"poolInUse": 2, "b:1": {"inUse": 2}},
    }}  # fmt: skip
    assert in_use(reply, {"a:1": "shard1-1"}) == {"shard1-1": 4}


def test_a_token_tells_its_cluster_time() -> None:
    assert token_seconds("826B0C884F000000022B022C0100296E5A1004") == 0x6B0C884F
    assert token_seconds("rubbish") is None
    assert token_seconds("") is None


def test_a_token_that_stands_still_while_cluster_time_goes_on_is_not_moving() -> None:
    tokens = Tokens(window=3.0)

    def empty(at: float, token: str) -> None:
        tokens.feed(Event(ns(at), at, "streams", "stream.empty", {"stream": "s1", "token": token, "alive": True}))

    empty(1, "82000000010000000A")
    tokens.cluster_time(1, ns(1))
    assert [(one.moving, one.cluster_time_moving) for one in tokens.judge(ns(1))] == [(True, True)]
    empty(2, "82000000020000000A")
    empty(5.5, "82000000020000000A")
    tokens.cluster_time(6, ns(5))
    (still,) = tokens.judge(ns(5.5))
    assert (still.moving, still.cluster_time_moving, still.behind) == (False, True, 4)
    empty(6, "82000000060000000A")
    (again,) = tokens.judge(ns(6))
    assert (again.moving, again.behind) == (True, 0)


def state(name: State, since: float = 10.0) -> dict[str, StreamState]:
    return {"s1": StreamState("s1", name, ns(since), 3, 20)}


def hanging(member: str = "shard1-0", seconds: float = 3.5, source: Any = "currentOp") -> GetMore:
    return GetMore(member, 42, seconds, 1000, COMMENT, "s1", source, ns(13))


def views(member: str, *failing: Probe, since: float = 11) -> dict[str, dict[Probe, View]]:
    probes: tuple[Probe, ...] = ("hello", "find", "causal", "aggregate")
    return {member: {probe: View(probe not in failing, 0.1, None, False, ns(12), ns(since)) for probe in probes}}


LOOKUP = Lookup("shard1-1", 7, 3.0, COMMENT, "s1", ns(13))

CAUSES = [
    ("lookup seen", Evidence([hanging()], [LOOKUP], {"shard1-0": {"shard1-2": 1}}), "shard1-1", "lookup in $currentOp"),
    ("connections in use", Evidence([hanging()], [], {"shard1-0": {"shard1-1": 8}}), "shard1-1", "8 in use towards"),
    (
        "connections in use towards several: the one that fails its canary",
        Evidence([hanging()], [], {"shard1-0": {"shard1-1": 1, "shard1-2": 4}}, views("shard1-1", "hello")),
        "shard1-1",
        "1 in use towards",
    ),
    (
        "a member's connections to itself are no wait",
        Evidence([hanging()], [], {"shard1-0": {"shard1-0": 5, "shard1-2": 1}}),
        "shard1-2",
        "1 in use towards",
    ),
    (
        "canary of the same set",
        Evidence([hanging()], views=views("shard1-2", "causal")),
        "shard1-2",
        "canary: no causal",
    ),
    (
        "the router waits on a member that answers nothing",
        Evidence([hanging("shard1-1", source="router")], views=views("shard1-1", "hello", "find")),
        "shard1-1",
        "the router's getMore on it; canary: no hello, find",
    ),
    (
        "no getMore to be seen, one member fails",
        Evidence(views=views("shard0-1", "hello")),
        "shard0-1",
        "canary: no hello",
    ),
    (
        "of several that fail, the one that fell last",
        Evidence(views={**views("shard0-1", "hello", "find", since=5), **views("shard1-1", "hello", since=11)}),
        "shard1-1",
        "canary: no hello",
    ),
    ("only the router fails", Evidence(views=views(ROUTER, "hello")), ROUTER, "canary: no hello"),
]


@pytest.mark.parametrize(("_what", "evidence", "waits_for", "known_by"), CAUSES, ids=[row[0] for row in CAUSES])
def test_an_alarm_names_whom_the_stream_waits_for(
    _what: str, evidence: Evidence, waits_for: str, known_by: str
) -> None:
    (alarm,), completed, cleared = Alarms(MEMBERS, threshold=3.0).judge(state("silent"), evidence, ns(13.1))
    assert alarm.waits_for == waits_for
    assert alarm.known_by is not None
    assert known_by in alarm.known_by
    assert (alarm.since, alarm.after_seconds) == (ns(10), 3.1)
    assert (completed, cleared) == ([], [])


NO_ALARM = [
    ("a silence without evidence", state("silent"), Evidence()),
    ("a getMore within its time", state("silent"), Evidence([hanging(seconds=1.9)])),
    ("a hanging getMore of a stream that delivers", state("delivering"), Evidence([hanging()], [LOOKUP])),
    (
        "a failing canary of the other set",
        state("silent"),
        Evidence([hanging(seconds=1.2)], views=views("config-0", "find")),
    ),
    (
        "another stream's getMore and lookup",
        state("silent"),
        Evidence(
            [GetMore("shard1-0", 1, 9, 1000, None, "s2", "currentOp", 0)], [Lookup("shard1-1", 7, 9, None, "s2", 0)]
        ),
    ),
    (
        "somebody else's getMore",
        state("silent"),
        Evidence([GetMore("shard1-0", 1, 9, 1000, None, None, "currentOp", 0)]),
    ),
]


@pytest.mark.parametrize(("_what", "states", "evidence"), NO_ALARM, ids=[row[0] for row in NO_ALARM])
def test_no_alarm_without_suspicion_and_evidence(
    _what: str, states: dict[str, StreamState], evidence: Evidence
) -> None:
    assert Alarms(MEMBERS, threshold=3.0).judge(states, evidence, ns(14)) == ([], [], [])


def test_an_alarm_without_a_name_waits_half_a_second_for_it_and_is_completed_later_once() -> None:
    alarms = Alarms(MEMBERS, threshold=3.0)
    nameless = Evidence([hanging()])
    assert alarms.judge(state("silent"), nameless, ns(13.1)) == ([], [], [])
    (raised,), _, _ = alarms.judge(state("silent"), nameless, ns(13.6))
    assert (raised.waits_for, raised.getmore) == (None, hanging())
    assert alarms.judge(state("silent"), nameless, ns(13.7)) == ([], [], [])
    named = Evidence([hanging()], [LOOKUP])
    again, (completed,), _ = alarms.judge(state("silent"), named, ns(14))
    assert (again, completed.waits_for) == ([], "shard1-1")
    assert alarms.judge(state("silent"), named, ns(14.1)) == ([], [], [])


def test_a_members_own_word_on_a_getmore_goes_before_the_routers() -> None:
    evidence = Evidence([hanging(seconds=9, source="router"), hanging(seconds=3.5)], [LOOKUP])
    (alarm,), _, _ = Alarms(MEMBERS, threshold=3.0).judge(state("silent"), evidence, ns(13.1))
    assert alarm.getmore == hanging(seconds=3.5)


def test_an_alarm_is_cleared_once_and_a_new_silence_is_a_new_alarm() -> None:
    alarms = Alarms(MEMBERS, threshold=3.0)
    evidence = Evidence([hanging()], [LOOKUP])
    assert len(alarms.judge(state("silent"), evidence, ns(13))[0]) == 1
    assert alarms.judge(state("lagging"), evidence, ns(14)) == ([], [], ["s1"])
    assert alarms.judge(state("lagging"), evidence, ns(15)) == ([], [], [])
    assert len(alarms.judge(state("silent", 16), evidence, ns(19))[0]) == 1


def test_an_alarm_as_the_history_has_it() -> None:
    evidence = Evidence([hanging()], [LOOKUP], views=views("shard1-1", "hello"))
    (alarm,), _, _ = Alarms(MEMBERS, threshold=3.0).judge(state("silent"), evidence, ns(13))
    fields = alarm.fields()
    assert fields["getmore"] == {
        "member": "shard1-0", "opid": 42, "seconds": 3.5, "max_time_ms": 1000, "comment": COMMENT, "stream": "s1",
        "source": "currentOp",
    }  # fmt: skip
    assert fields["canary"]["hello"] == {"ok": False, "seconds": 0.1, "error": None, "parked": False}
