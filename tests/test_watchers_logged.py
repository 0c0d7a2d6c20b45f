"""What the server's log and counters say of writes, in the form that 6.0.5 writes them. From tables, no server."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.watchers.counters import at, wanted
from harness.watchers.logged import Logged, read_log

SESSION = uuid.UUID(int=7)
COMMENT = {"run": "r1", "write": "t/0/0", "execution": 1}
AT = "2026-11-30T05:51:51.673Z"
SECONDS = 1796017911.673


def line(attr: dict[str, Any], *, thread: str = "conn17", time: str = AT, number: int = 51803) -> str:
    entry = {"t": {"$date": time}, "s": "I", "c": "COMMAND", "id": number, "ctx": thread, "msg": "Slow query"}
    return json.dumps({**entry, "attr": attr}, separators=(",", ":"))


def request(verb: str, **attr: Any) -> dict[str, Any]:
    """The line of a numbered command of a client."""
    command = {verb: "t", "lsid": {"id": {"$uuid": str(SESSION)}}, "txnNumber": 3, "comment": COMMENT, "$db": "app"}
    told = {"type": "command", "ns": "app.$cmd", "command": command, "remote": "127.0.0.1:1", "durationMillis": 434}
    return {**told, **attr}


def statement(kind: str = "update", **attr: Any) -> dict[str, Any]:
    """The line of one statement, which comes before its command's."""
    command = {"q": {"_id": 1}, "u": {"$inc": {"qty": 5}}, "multi": False, "upsert": True}
    told = {"type": kind, "ns": "app.t", "command": command, "remote": "127.0.0.1:1", "durationMillis": 300}
    return {**told, **attr}


LOCKED = {"locks": {"Global": {"acquireCount": {"r": 1, "w": 2}}, "Collection": {"acquireCount": {"w": 1}}}}
RECALLED = {"locks": {"Global": {"acquireCount": {"r": 2}}}}
"""What a write holds that is carried out, and what a resend that is answered from its session's record."""

REQUESTS: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("an insert", [request("insert", ninserted=1, **LOCKED)], {"executed": True, "inserted": 1, "command": "insert"}),
    ("its resend", [request("insert", ninserted=0, **RECALLED)], {"executed": False, "inside": False}),
    ("an insert that met its key", [request("insert", ninserted=0, **LOCKED)], {"executed": True, "inserted": 0}),
    (
        "an insert that was rejected",
        [request("insert", ok=0, errName="HostUnreachable", errCode=6)],
        {"executed": False, "inside": False, "failed": True, "code": 6},
    ),
    (
        "an update",
        [statement(nMatched=1, nModified=1, nUpserted=0), request("update", **LOCKED)],
        {"executed": True, "matched": 1, "modified": 1, "command": "update"},
    ),
    ("an update that upserted", [statement(nMatched=0, nUpserted=1), request("update")], {"upserted": 1}),
    ("an update that matched nothing", [statement(nMatched=0), request("update")], {"executed": True, "matched": 0}),
    ("the resend of an update", [request("update", **RECALLED)], {"executed": False, "inside": False}),
    ("two updates", [statement(nMatched=1), statement(nMatched=1), request("update")], {"matched": 2}),
    ("a delete", [statement("remove", ndeleted=2), request("delete")], {"executed": True, "deleted": 2}),
    (
        "an update that was killed",
        [statement(ok=0, errCode=11601), request("update", ok=0, errCode=11601, **LOCKED)],
        {"executed": False, "inside": True, "failed": True, "modified": 0, "code": 11601},
    ),
    (
        "a findAndModify",
        [request("findAndModify", nMatched=1, nModified=1, **LOCKED)],
        {"executed": True, "modified": 1, "command": "findAndModify"},
    ),
    ("under its old name", [request("findandmodify", nUpserted=1)], {"upserted": 1, "command": "findAndModify"}),
    ("the resend of a findAndModify", [request("findAndModify", **RECALLED)], {"executed": False}),
]


@pytest.mark.parametrize(("what", "told", "expected"), REQUESTS, ids=[one[0] for one in REQUESTS])
def test_a_request_is_read_with_what_it_did(what: str, told: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    (found,) = read_log(line(one) for one in told)
    assert {name: getattr(found, name) for name in expected} == expected, what
    assert (found.lsid, found.txn, found.comment) == (SESSION.hex, 3, COMMENT)
    assert (found.namespace, found.internal) == ("app.t", False)
    assert found.ended == SECONDS


def test_the_time_of_an_update_is_its_statements_without_what_it_waited_for_before_and_after() -> None:
    statements = line(statement(nMatched=1), time="2026-11-30T05:51:51.000Z")
    (update,) = read_log([statements, line(request("update"))])
    assert (update.began, update.ended) == (round(SECONDS - 0.973, 3), round(SECONDS - 0.673, 3))
    assert update.millis == 434
    (insert,) = read_log([line(request("insert", ninserted=1))])
    assert (insert.began, insert.ended) == (round(SECONDS - 0.434, 3), SECONDS)
    (later,) = read_log([line(request("insert", ninserted=1, waitForWriteConcernDurationMillis=400))])
    assert (later.began, later.ended) == (round(SECONDS - 0.434, 3), round(SECONDS - 0.4, 3))


def test_statements_belong_to_the_next_command_of_their_thread() -> None:
    lines = [
        line(statement(nMatched=1, nModified=1), thread="conn1"),
        line(statement(nMatched=1, nModified=0), thread="conn2"),
        line(request("update", remote="two"), thread="conn2"),
        line(request("update"), thread="conn1"),
        line(request("update"), thread="conn1"),
    ]
    assert [(one.modified, one.executed) for one in read_log(lines)] == [(0, True), (1, True), (0, False)]


def test_a_command_that_was_too_long_for_its_line_is_marked() -> None:
    short, long = line(request("insert")), json.loads(line(request("insert")))
    del long["attr"]["command"]["comment"]
    long["truncated"] = {"command": {"documents": {"type": "array", "size": 20000}}}
    assert [(one.cut, one.comment) for one in read_log([short, json.dumps(long, separators=(",", ":"))])] == [
        (False, COMMENT),
        (True, None),
    ]


def test_what_a_server_writes_by_itself_has_no_client() -> None:
    own = request("insert", ninserted=1)
    del own["remote"]
    assert [one.internal for one in read_log([line(own)])] == [True]


@pytest.mark.parametrize(
    "other",
    [
        line(request("find")),
        line(request("insert"), number=22943),
        line(request("insert", ninserted=1))[:-20],
        "no JSON at all",
        line({"type": "command", "command": "text", "durationMillis": 1}),
        line({"type": "command", "ns": "app.t"}),
    ],
)
def test_other_lines_are_passed_over(other: str) -> None:
    assert list(read_log([other])) == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=12), st.randoms(use_true_random=False))
def test_however_threads_take_turns_each_request_gets_its_own_statements(
    requests: list[tuple[int, int]], random: Any
) -> None:
    threads: dict[int, list[str]] = {}
    for thread, statements in requests:
        name = f"conn{thread}"
        threads.setdefault(thread, []).extend(
            [
                *(line(statement(nMatched=1), thread=name) for _ in range(statements)),
                line(request("update"), thread=name),
            ]
        )
    mixed: list[str] = []
    while any(threads.values()):
        mixed.append(threads[random.choice([one for one, lines in threads.items() if lines])].pop(0))
    found: list[Logged] = list(read_log(mixed))
    assert sorted(one.matched for one in found) == sorted(statements for _, statements in requests)


def test_of_server_status_what_counts_writes_is_kept_by_its_dotted_name() -> None:
    status = {
        "pid": 7,
        "metrics": {"commands": {"insert": {"total": 3, "failed": 1}, "find": {"total": 9, "failed": 0}}},
        "opcounters": {"insert": 2, "query": 9},
        "transactions": {"retriedCommandsCount": 1},
    }
    assert wanted(status) == {
        "metrics.commands.insert.total": 3,
        "metrics.commands.insert.failed": 1,
        "opcounters.insert": 2,
        "transactions.retriedCommandsCount": 1,
        "pid": 7,
    }
    assert at(status, "metrics.commands.insert.total") == 3
    assert at(status, "metrics.nothing.here") is None
