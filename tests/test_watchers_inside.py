"""What the watchers make of `$currentOp`, and when copies are too many at once. From tables, no server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bson.binary import Binary
from hypothesis import given
from hypothesis import strategies as st

from harness.measures import NS
from harness.watchers.inside import Op, Wait, current_op, may_want_a_ticket, read_ops, running, samples
from harness.watchers.overlap import GROUPS_TOLD, OVER, OverlapAlarm, OverlapAlarms

RUN = "r1"
SESSION = bytes(range(16))
LSID = {"id": Binary(SESSION, 4), "uid": Binary(b"\0" * 32, 0)}
COMMENT = {"run": RUN, "write": "t/0/0", "execution": 1}


def entry(**changes: Any) -> dict[str, Any]:
    """As `$currentOp` of 6.0.5 shows an insert that is held inside the engine; None leaves a field out."""
    op: dict[str, Any] = {
        "opid": 7, "op": "insert", "ns": "app.t", "lsid": LSID, "microsecs_running": 2_500_000, "waitingForLock": False,
        "command": {"insert": "t", "lsid": LSID, "txnNumber": 1, "comment": COMMENT, "$db": "app"},
        "transaction": {"parameters": {"txnNumber": 1}}, "locks": {"Global": "w"},
    }  # fmt: skip
    return {name: value for name, value in {**op, **changes}.items() if value is not None}


UPDATE = {"q": {"_id": 1}, "u": {"$inc": {"qty": 5}}, "multi": False, "upsert": True, "comment": COMMENT}
LATCH = {"captureName": "SessionCatalog::_mutex"}
CONCERN = {"captureName": "AnonymousLockable"}
UNNUMBERED = {"update": "t", "lsid": LSID, "comment": COMMENT}

ENTRIES: list[tuple[str, dict[str, Any], bool, Wait, int | None]] = [
    ("in the engine", entry(), True, "nothing", 1),
    ("at a fail point", entry(failpointMsg="hangDuringBatchInsert"), True, "fail point", 1),
    ("in the engine, for a lock", entry(waitingForLock=True), True, "lock", 1),
    ("at the checkout", entry(transaction={"parameters": {"txnNumber": -1}}), True, "nothing", 1),
    ("the waiting resend", entry(op="command", ns="app.$cmd", transaction=None, locks={}, waitingForLatch=LATCH),
     False, "session", 1),
    ("the same where latches are not told", entry(op="command", ns="app.$cmd", transaction=None, locks={}), False,
     "session", 1),
    ("held by failCommand", entry(op="command", ns="app.$cmd", transaction=None, locks={}, microsecs_running=None),
     False, "fail point", 1),
    ("an update, its command gone", entry(op="update", command=UPDATE), True, "nothing", 1),
    ("a delete, its command gone", entry(op="remove", command={"q": {}, "limit": 1, "comment": COMMENT}), True,
     "nothing", 1),
    ("without a number, begun", entry(op="update", command=UPDATE, transaction=None), True, "nothing", None),
    ("without a number, held by failCommand",
     entry(op="command", ns="app.$cmd", command=UNNUMBERED, transaction=None, microsecs_running=None), False,
     "fail point", None),
    ("a findAndModify", entry(op="command", command={"findAndModify": "t", "txnNumber": 1, "comment": COMMENT}), True,
     "nothing", 1),
    ("asleep in the engine", entry(waitingForLatch=CONCERN, locks={}), True, "nothing", 1),
    ("at the checkout, its command gone",
     entry(op="update", command=UPDATE, transaction={"parameters": {"txnNumber": -1}}), True, "nothing", None),
    ("after it, for its write concern",
     entry(transaction=None, locks={}, waitingForLatch=CONCERN), False, "write concern", 1),
    ("the same without a number",
     entry(command=UNNUMBERED, transaction=None, locks={}, waitingForLatch=CONCERN), False,
     "write concern", None),
    ("the same as 8.0 tells it", entry(transaction=None, locks={}, waitForWriteConcernDurationMillis=5), False,
     "write concern", 1),
    ("queued, as 8.0 tells it", entry(currentQueue={"name": "execution"}), True, "ticket", 1),
]  # fmt: skip


@pytest.mark.parametrize(("what", "found", "copy", "wait", "txn"), ENTRIES, ids=[one[0] for one in ENTRIES])
def test_an_op_is_read_as_a_copy_or_not_and_with_what_it_waits_for(
    what: str, found: dict[str, Any], copy: bool, wait: Wait, txn: int | None
) -> None:
    (op,) = read_ops("rs0-0", [found], RUN)
    assert (op.copy, op.waits_for, op.txn) == (copy, wait, txn), what
    assert (op.write, op.execution, op.namespace, op.lsid) == ("t/0/0", 1, "app.t", SESSION.hex())
    assert op.seconds == (2.5 if "microsecs_running" in found else None)


@pytest.mark.parametrize(
    "found",
    [
        entry(op="command", command={"aggregate": "t", "comment": COMMENT}),
        entry(op="getmore", command={"getMore": 1, "collection": "t"}),
        entry(op="query", command={"find": "t", "comment": COMMENT}),
    ],
)
def test_what_does_not_write_is_passed_over(found: dict[str, Any]) -> None:
    assert read_ops("rs0-0", [found], RUN) == []


def test_an_op_of_somebody_else_belongs_to_no_write_of_ours() -> None:
    for comment in ({"run": "r2", "write": "t/0/0", "execution": 1}, "text"):
        (op,) = read_ops("rs0-0", [entry(command={"insert": "t", "txnNumber": 1, "comment": comment})], RUN)
        assert (op.write, op.execution) == (None, None)
        assert op.group == (SESSION.hex(), 1, None, None)


def test_a_ticket_is_told_from_nothing_only_by_the_members_own_account() -> None:
    waiting = entry(locks={"FeatureCompatibilityVersion": "w", "ReplicationStateTransition": "w"})
    assert may_want_a_ticket(waiting)
    assert not may_want_a_ticket(entry())
    assert not may_want_a_ticket(entry(locks={}, failpointMsg="hangDuringBatchInsert"))
    for out, wait in ((True, "ticket"), (False, "nothing")):
        (op,) = read_ops("rs0-0", [waiting], RUN, tickets_out=out)
        assert op.waits_for == wait
    (held,) = read_ops("rs0-0", [entry()], RUN, tickets_out=True)
    assert held.waits_for == "nothing"


def test_the_question_asks_by_comment_and_namespace_and_never_by_a_command_alone() -> None:
    match = current_op(RUN, ["app.t"])["pipeline"][1]["$match"]["$or"]
    assert match[0]["command.comment.run"] == RUN
    assert match[1]["ns"] == "app.t"
    assert match[2]["ns"] == "app.$cmd"
    assert len(current_op(RUN)["pipeline"][1]["$match"]["$or"]) == 1


def op(**changes: Any) -> Op:
    fields: dict[str, Any] = {
        "member": "rs0-0", "opid": 7, "namespace": "app.t", "lsid": "a", "txn": 1, "write": "t/0/0", "execution": 1,
        "copy": True, "waits_for": "lock", "seconds": 2.0,
    }  # fmt: skip
    return Op(**{**fields, **changes})


def copies(count: int, **changes: Any) -> list[Op]:
    """So many executions of one write, each with a copy and a resend that waits for its session."""
    return [
        one
        for number in range(1, count + 1)
        for one in (
            op(opid=2 * number, lsid=f"s{number}", execution=number, **changes),
            op(opid=2 * number + 1, lsid=f"s{number}", execution=number, **{**changes, "copy": False,
                                                                           "waits_for": "session"}),
        )
    ]  # fmt: skip


def test_a_sample_counts_ops_groups_and_copies_apart() -> None:
    found = samples([*copies(4), op(namespace="app.u", write=None)])
    assert set(found) == {"app.t", "app.u"}
    sample = found["app.t"]
    assert (sample.ops, sample.groups, sample.copies) == (8, 4, 4)
    assert sample.writes == {"t/0/0": 4}
    assert sample.waiting == {"lock": 4, "session": 4}
    assert (found["app.u"].copies, found["app.u"].writes) == (1, {})


@pytest.mark.parametrize(
    ("what", "ops", "count"),
    [
        ("original and resend", copies(1), 1),
        ("one write on two shards", [op(member="shard0-0", txn=None), op(member="shard1-0", txn=None)], 1),
        ("the same with a number", [op(member="shard0-0"), op(member="shard1-0")], 1),
        ("one execution twice, with nothing to number it", [op(txn=None), op(txn=None, opid=8)], 2),
        ("two executions", [op(txn=None), op(txn=None, execution=2)], 2),
        ("one session, two numbers, one of them in", [op(), op(txn=2, copy=False, waits_for="session")], 1),
    ],
)
def test_copies_are_counted_by_what_they_are_copies_of(what: str, ops: list[Op], count: int) -> None:
    assert running(ops)["t/0/0"] == count, what


def judge(alarms: OverlapAlarms, ops: list[Op], seconds: float, blind: set[str] | None = None) -> tuple[int, int]:
    raised, cleared = alarms.judge({"rs0-0": ops}, blind or set(), round(seconds * NS), 0.2)
    return len(raised), len(cleared)


def test_an_alarm_names_collection_groups_seconds_and_what_is_waited_for() -> None:
    alarms = OverlapAlarms()
    (alarm,), _ = alarms.judge({"rs0-0": copies(3), "rs0-1": []}, {"rs0-0"}, 0, 0.2)
    assert isinstance(alarm, OverlapAlarm)
    assert (alarm.namespace, alarm.write, alarm.copies, alarm.group_count) == ("app.t", "t/0/0", 3, 3)
    assert (alarm.limit, alarm.seconds, alarm.waits_for, alarm.members) == (1, 2.0, "lock", ["rs0-0"])
    assert alarm.waiting == {"lock": 3, "session": 3}
    assert alarm.groups[0] == {
        "lsid": "s1", "txn": 1, "ops": 2, "copies": 1, "seconds": 2.0, "waits_for": "lock", "members": ["rs0-0"],
    }  # fmt: skip
    assert alarm.known_by == "$currentOp of rs0-0, sampled every 0.2 s; rs0-0 gives no answer now"
    json.dumps(alarm.fields())


def test_one_episode_is_one_alarm_and_is_over_after_a_while_without() -> None:
    alarms = OverlapAlarms()
    assert judge(alarms, copies(1), 0) == (0, 0)
    assert judge(alarms, copies(2), 1) == (1, 0)
    assert judge(alarms, copies(4), 2) == (0, 0)
    assert judge(alarms, copies(1), 2.5) == (0, 0)
    assert judge(alarms, copies(2), 2.9) == (0, 0)
    assert judge(alarms, [], 2.9 + OVER - 0.1) == (0, 0)
    assert set(alarms.open) == {("app.t", "t/0/0")}
    _, (over,) = alarms.judge({"rs0-0": []}, set(), round((2.9 + OVER) * NS), 0.2)
    assert (over.write, over.most_copies, over.most_groups, over.seconds) == ("t/0/0", 4, 4, 1.9)
    assert alarms.open == {}
    assert judge(alarms, copies(2), 9) == (1, 0)


def test_more_groups_than_clients_on_a_collection_are_an_alarm_whosever_they_are() -> None:
    alarms = OverlapAlarms(clients=3)
    strangers = [op(opid=n, lsid=f"s{n}", write=None, execution=None) for n in range(4)]
    assert judge(alarms, strangers[:3], 0) == (0, 0)
    (alarm,), _ = alarms.judge({"rs0-0": strangers}, set(), 0, 0.2)
    assert (alarm.write, alarm.limit, alarm.group_count) == (None, 3, 4)
    assert judge(OverlapAlarms(), strangers, 0) == (0, 0)


def test_the_limit_is_of_one_write_and_many_groups_are_told_by_the_oldest() -> None:
    assert judge(OverlapAlarms(limit=4), copies(4), 0) == (0, 0)
    assert judge(OverlapAlarms(limit=4), copies(5), 0) == (1, 0)
    apart = [op(opid=n, lsid=f"s{n}", write=f"t/0/{n}") for n in range(5)]
    assert judge(OverlapAlarms(), apart, 0) == (0, 0)
    many = [op(opid=n, lsid=f"s{n}", execution=n, seconds=float(n)) for n in range(GROUPS_TOLD + 5)]
    (alarm,), _ = OverlapAlarms().judge({"rs0-0": many}, set(), 0, 0.2)
    assert (alarm.group_count, len(alarm.groups)) == (GROUPS_TOLD + 5, GROUPS_TOLD)
    assert alarm.groups[0]["seconds"] == alarm.seconds == GROUPS_TOLD + 4


@given(st.lists(st.integers(0, 4), max_size=40))
def test_alarms_and_their_ends_take_turns(counts: list[int]) -> None:
    alarms = OverlapAlarms()
    open_now = 0
    for second, count in enumerate(counts):
        raised, cleared = judge(alarms, copies(count), second * OVER)
        assert (raised, cleared) == (int(count > 1 and not open_now), int(count <= 1 and open_now))
        open_now += raised - cleared
        assert len(alarms.open) == open_now == int(count > 1)
