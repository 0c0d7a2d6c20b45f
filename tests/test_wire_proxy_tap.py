"""The tap's counts: exact, of the right thing, and never dropped in silence."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from clusters.wire.message import HEADER, OP_MSG, Message, encode, encode_document, encode_sequence
from clusters.wire.proxy.tap import Row, Tap, read

SESSION = uuid.UUID(int=7)
NUMBERED = {"lsid": {"id": Binary(SESSION.bytes, 4)}, "txnNumber": Int64(5)}
COMMENT = {"run": "r", "write": 3, "execution": 1}


def message(command: dict[str, Any], database: str = "shop") -> Message:
    return Message(encode({**command, "$db": database}, request_id=1))


@pytest.mark.parametrize(
    ("command", "database", "found"),
    [
        ({"find": "orders", "filter": {}}, "shop", ("find", "shop.orders")),
        ({"getMore": Int64(1), "collection": "orders"}, "shop", ("getMore", "shop.orders")),
        ({"aggregate": 1, "pipeline": []}, "admin", ("aggregate", "admin")),
        ({"ping": 1}, "shop", ("ping", "shop")),
        ({"find": Binary(SESSION.bytes, 4)}, "shop", ("find", "shop")),
        ({"renameCollection": "shop.a", "to": "shop.b"}, "admin", ("renameCollection", "shop.a")),
        ({"replSetHeartbeat": "rs0"}, "admin", ("replSetHeartbeat", "admin")),
        ({"find": "system.version"}, "admin", ("find", "admin.system.version")),
        ({"find": "oplog.rs"}, "local", ("find", "local.oplog.rs")),
    ],
)
def test_a_command_has_a_name_and_a_namespace(command: dict[str, Any], database: str, found: tuple[str, str]) -> None:
    asked = read(message(command, database))
    assert (asked.command, asked.namespace) == found


def sent(tap: Tap, command: dict[str, Any], link: str = "a", source: str = "driver") -> tuple[Row, ...]:
    one = message(command)
    return tap.sent(link, source, read(one), one)


def rows(tap: Tap, by: str, **wanted: Any) -> list[dict[str, Any]]:
    return list(tap.counts(by, wanted, 100)["rows"])


def test_copies_of_one_write_are_counted_over_all_links_with_the_most_at_once() -> None:
    tap = Tap()
    write = {"update": "orders", **NUMBERED, "comment": COMMENT}
    first, second = sent(tap, write), sent(tap, write, link="b")
    tap.ended(first)
    third = sent(tap, write)
    tap.ended(second, answered=False)
    for by in ("transaction", "comment"):
        (row,) = rows(tap, by)
        assert (row["total"], row["now"], row["most"], row["unanswered"]) == (3, 1, 2, 1)
        assert row["links"] == {"a": 2, "b": 1}
        assert row["first"] <= row["last"]
    assert (rows(tap, "transaction")[0]["lsid"], rows(tap, "transaction")[0]["txnNumber"]) == (NUMBERED_ID, 5)
    assert {name: rows(tap, "comment")[0][name] for name in COMMENT} == COMMENT
    on_a, on_b = rows(tap, "command")
    assert (on_a["total"], on_a["most"], on_b["total"]) == (2, 1, 1)
    tap.ended(third)
    sent(tap, write)
    assert [(row["now"], row["most"]) for row in rows(tap, "transaction")] == [(1, 2)]


NUMBERED_ID = Binary(SESSION.bytes, 4)


def test_rows_are_chosen_by_the_fields_of_their_key() -> None:
    tap = Tap()
    sent(tap, {"find": "orders"})
    sent(tap, {"find": "orders"}, link="b", source="rs0-0")
    sent(tap, {"insert": "orders", **NUMBERED})
    assert [row["command"] for row in rows(tap, "command", link="a")] == ["find", "insert"]
    assert [row["link"] for row in rows(tap, "command", source="rs0-0", command="find")] == ["b"]
    assert len(rows(tap, "transaction", lsid=SESSION)) == 1
    assert len(rows(tap, "transaction", lsid=NUMBERED_ID, txnNumber=5)) == 1
    assert rows(tap, "transaction", txnNumber=6) == []
    assert tap.counts("command", {}, 1)["leftOff"] == 2


def test_a_comment_of_another_form_is_no_key() -> None:
    tap = Tap()
    for comment in ("text", {"run": "r"}, {"run": [], "write": 1, "execution": 1}):
        sent(tap, {"find": "orders", "comment": comment})
    assert rows(tap, "comment") == []
    assert rows(tap, "command")[0]["total"] == 3


def test_what_finds_no_room_is_told_and_what_has_room_counts_on() -> None:
    tap = Tap(limit=2)
    for name in ("a", "b", "c", "c"):
        tap.ended(sent(tap, {"find": name}))
    sent(tap, {"find": "a"})
    found = tap.counts("command", {}, 100)
    assert [row["total"] for row in found["rows"]] == [2, 1]
    assert (found["messages"], found["dropped"]) == (5, 2)
    tap.clear()
    assert tap.counts("command", {}, 100) == {"rows": [], "leftOff": 0, "messages": 0, "dropped": 0}


def test_a_session_is_found_behind_a_document_sequence_that_comes_first() -> None:
    tap = Tap()
    body = encode_document({"insert": "orders", **NUMBERED, "$db": "shop"})
    rest = b"\x00" * 4 + encode_sequence("documents", [encode_document({"_id": 1})]) + b"\x00" + body
    one = Message(HEADER.pack(16 + len(rest), 1, 0, OP_MSG) + rest)
    tap.sent("a", "driver", read(one), one)
    assert len(rows(tap, "transaction")) == len(rows(tap, "command", namespace="shop.orders")) == 1
