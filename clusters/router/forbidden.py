"""The one gate to the router host: what passes gets its `cluster*` name, what would abort the mongod is refused.

Everything sent to the router host goes through here, so that no path can forget it. Knows bytes, not clusters.

Measured on 6.0.5: the process dies of `txnNumber` on a cluster write (invariant in transaction_router.cpp), and of a
`clusterGetMore` that waits for data (`Invariant failure haveClient()`): of change streams and of tailable awaitData
cursors alike. Whatever could lead there is refused, not only what was seen to.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from clusters.router.errors import RouterError
from clusters.router.rewrite import DOCUMENT, STRING, elements, keys_anywhere, number, rename_first
from clusters.wire.message import OP_MSG, Message, ProtocolError, encode_body

CLUSTER_FORM: Final = {
    "find": "clusterFind",
    "aggregate": "clusterAggregate",
    "getMore": "clusterGetMore",
    "insert": "clusterInsert",
    "update": "clusterUpdate",
    "delete": "clusterDelete",
}
"""What passes, and its name on a 6.0 shard server; there is no clusterFindAndModify."""

PLAIN: Final = frozenset(
    (
        "buildInfo",
        "clearJumboFlag",
        "configureFailPoint",
        "connPoolStats",
        "flushRouterConfig",
        "getParameter",
        "hostInfo",
        "serverStatus",
        "setParameter",
        "shardingState",
        "waitForFailPoint",
    )
)
"""What the router host may be asked as itself: nothing of this touches its in-process router."""

TRANSACTION: Final = frozenset(("txnNumber", "autocommit", "startTransaction", "txnRetryCounter", "coordinator"))
STATEMENTS: Final = frozenset(("stmtId", "stmtIds"))
AMONG_SERVERS: Final = frozenset(
    (
        "shardVersion",
        "databaseVersion",
        "fromMongos",
        "fromRouter",
        "needsMerge",
        "exchange",
        "mayBypassWriteBlocking",
        "$replData",
        "$oplogQueryData",
        "$configServerState",
        "$configTime",
        "$topologyTime",
        "$audit",
        "$client",
    )
)
TAILABLE: Final = frozenset(("tailable", "awaitData"))
_LOOKED_AT: Final = TRANSACTION | STATEMENTS | AMONG_SERVERS | TAILABLE | {"$db", "getMore"}
SEQUENCES: Final = {
    "insert": "documents",
    "update": "updates",
    "delete": "deletes",
    "aggregate": "pipeline",
}
"""The one document sequence each command may carry; any other could smuggle a field in."""


class Forbidden(RouterError):
    """A command that must not reach the router host. Nothing was sent."""

    def __init__(self, why: str) -> None:
        super().__init__(20, "IllegalOperation", f"the stand-in router does not pass this on: {why}")


def to_cluster_form(message: Message, opened: Container[int]) -> bytes:
    """The message as it goes to the router host; its request id is kept, so that the reply answers the client's.

    `opened`: the cursors opened on the router host through this router; a getMore of any other is refused.
    Raises Forbidden.
    """
    if message.op != OP_MSG:
        raise Forbidden("only OP_MSG can be passed on")
    command = message.command
    form = CLUSTER_FORM.get(command)
    if form is None:
        raise Forbidden(f"{command!r} has no cluster form that is known to be safe")
    try:
        _check(command, message, opened)
    except ProtocolError as error:
        raise Forbidden(str(error)) from error
    # Flags go: moreToCome and exhaustAllowed are between the client and us, and the checksum no longer fits.
    return encode_body(rename_first(message.body, form), request_id=message.request_id, tail=message.tail)


def as_itself(message: Message) -> bytes:
    """A plain command to the router host, under its own name. Raises Forbidden for what is not in PLAIN.

    Also an aggregate on no collection: `$currentOp`, and `$documents` of the router's own.
    """
    command = message.command
    known = command in PLAIN or (command == "aggregate" and not names_collection(message))
    if message.op != OP_MSG or not known or message.has_sequences:
        raise Forbidden(f"{command!r} is not among what the router host is asked as itself")
    return encode_body(message.body, request_id=message.request_id)


def names_collection(message: Message) -> bool:
    """Whether the command's own value is a collection's name: an aggregate may have a number there."""
    return message.body[4] == STRING


def _check(command: str, message: Message, opened: Container[int]) -> None:
    body = message.body
    seen: set[str] = set()
    for element in elements(body):
        name = element.name
        if name in seen:
            raise Forbidden(f"field {name!r} stands in {command} twice")
        seen.add(name)
        if name not in _LOOKED_AT:
            continue
        _check_name(command, name)
        if name == "$db" and body[element.value + 4 : element.end - 1] == b"local":
            raise Forbidden("database local is each member's own; connect to the member")
        if name in TAILABLE and number(body, element) != 0:
            raise Forbidden("a tailable cursor that waits for data would abort the router host; use a mongos")
        if name == "getMore":
            identity = number(body, element)
            if identity is None or identity not in opened:
                raise Forbidden(f"cursor {identity} was not opened on the router host through this router")
    for identifier, _documents in message.sequences():
        if identifier in seen:
            raise Forbidden(f"field {identifier!r} stands in {command} twice")
        seen.add(identifier)
        if SEQUENCES.get(command) != identifier:
            raise Forbidden(f"{command} with a document sequence {identifier!r}")
    if command == "aggregate" and b"hangeStream" in message.raw:
        _check_pipeline(message)


def _check_name(command: str, name: str) -> None:
    if name in TRANSACTION or name in STATEMENTS:
        raise Forbidden(f"{command} with {name}: a numbered write or a transaction would abort the router host")
    if name in AMONG_SERVERS:
        raise Forbidden(f"{command} with {name}, which only servers say to each other")


def _check_pipeline(message: Message) -> None:
    """No stage of a change stream at any depth: `$unionWith`, `$lookup` and `$facet` hold pipelines too."""
    for element in elements(message.body):
        if element.kind in (DOCUMENT, 0x04):
            _check_keys(message.body, element.value)
    for _identifier, documents in message.sequences():
        for document in documents:
            _check_keys(document, 0)


def _check_keys(raw: bytes, start: int) -> None:
    for key in keys_anywhere(raw, start):
        if "hangeStream" in key:
            raise Forbidden(f"{key} would abort the router host; change streams are merged by the router itself")
