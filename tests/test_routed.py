"""How operations are put to a router and how its answers are read, and what is read of its log. Without a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.drivers.routed import Operation, Router, outcome_of, spoken
from harness.measures import AS_SHARD
from harness.scenarios.stale_cases import CASES, FIXED, Case, isolation
from harness.watchers.routing import code_of, counted, lines

INSIDE = Router("shard3-0", "127.0.0.1:1", "fine", in_process=True)
MONGOS = Router("router", "127.0.0.1:1", "fine", in_process=False)
UPDATE = Operation("second update B", "update", 2, "stale shard")
FIND = Operation("find A", "find", -5, "other shard", max_time_ms=300)
ALL = [*FIXED.values(), isolation("split", "fail-point", 1.0), isolation("move", "freeze-config", 3.0)]


def test_a_router_inside_a_mongod_takes_the_same_commands_under_other_names() -> None:
    own, inside = spoken(FIND, MONGOS, "c"), spoken(FIND, INSIDE, "c")
    assert next(iter(own.items())) == ("find", "c")
    assert next(iter(inside.items())) == ("clusterFind", "c")
    assert {**own, "find": 0} == {"find": 0, **{name: value for name, value in inside.items() if name != "clusterFind"}}
    assert own["maxTimeMS"] == 300 and "maxTimeMS" not in spoken(UPDATE, MONGOS, "c")


def test_each_operation_names_its_shard_key_so_that_one_shard_alone_is_asked() -> None:
    for case in ALL:
        for one in case.operations:
            said = json.dumps(spoken(one, INSIDE, "c"))
            assert f'"region": {one.region}' in said and f'"_id": "{one.name}"' in said


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_operations_of_a_case_have_names_and_documents_of_their_own(case: Case) -> None:
    names = [one.name for one in case.operations]
    assert len(set(names)) == len(names)
    for expected in case.expected.values():
        assert expected.waiting <= set(names) and set(expected.errors) <= set(names)
    assert case.name in CASES


@pytest.mark.parametrize(
    ("operation", "reply", "outcome", "code"),
    [
        (UPDATE, {"n": 1}, "ok", None),
        (UPDATE, {"n": 0}, "failed", None),
        (UPDATE, {"n": 0, "writeErrors": [{"index": 0, "code": 82, "errmsg": "no progress"}]}, "failed", 82),
        (FIND, {"cursor": {"firstBatch": [{}]}}, "ok", None),
        (FIND, {"cursor": {"firstBatch": []}}, "failed", None),
    ],
)
def test_an_answer_that_says_ok_may_tell_of_a_failure(
    operation: Operation, reply: dict[str, Any], outcome: str, code: int | None
) -> None:
    found = outcome_of(operation, reply)
    assert (found["outcome"], found["code"]) == (outcome, code)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("ShardInvalidatedForTargeting{ nss: db.c }: shard has been marked stale", 304),
        ("StaleConfig{ ns: db.c }: version mismatch", 13388),
        ({"code": 13388, "codeName": "StaleConfig", "errmsg": "x"}, 13388),
        ({"codeName": "StaleDbVersion"}, 249),
        ("HostUnreachable: gone", None),
        (None, None),
    ],
)
def test_an_error_in_a_log_line_is_a_document_or_a_text_that_begins_with_its_name(error: Any, code: int | None) -> None:
    assert code_of(error) == code


def test_of_a_log_those_lines_are_read_that_are_about_the_collection() -> None:
    def line(number: int, **attr: Any) -> str:
        date = {"$date": "2026-01-01T00:00:01.500+00:00"}
        return json.dumps({"t": date, "id": number, "msg": "m", "attr": attr}, separators=(",", ":"))

    log = [
        line(4619900, namespace="db.c"),
        line(4619900, namespace="db.d"),
        line(22840, error="ShardInvalidatedForTargeting{ nss: db.c }: stale"),
        line(1, namespace="db.c"),
        '{"id":4619900, torn db.c',
    ]
    found = list(lines(log, "db.c"))
    assert [(one.id, one.code) for one in found] == [(4619900, None), (22840, 304)]
    assert found[0].at == 1767225601.5


def test_the_counters_of_the_router_code_stand_beside_what_its_shard_said_to_others() -> None:
    cache = {"countStaleConfigErrors": 2, "countFullRefreshesStarted": 1, "operationsBlockedByRefresh": {"all": 9}}
    status = {"shardingStatistics": {"countStaleConfigErrors": 7, "catalogCache": cache}}
    assert counted(status) == {"countStaleConfigErrors": 2, "countFullRefreshesStarted": 1, AS_SHARD: 7}
    assert counted({}) == {}
