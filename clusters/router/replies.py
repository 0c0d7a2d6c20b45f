"""Turning what a command ended with into the bytes of its reply: documents, errors, and replies passed on. Pure.

Every reply carries the cluster time; one passed on from the router host gets an operationTime that covers the shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bson.errors import BSONError

from clusters.router.batch import MOVES_DOCUMENT, WOULD_CHANGE_OWNING_SHARD
from clusters.router.errors import RouterError
from clusters.wire.connection import CommandFailed, ConnectionLost
from clusters.wire.message import Message, ProtocolError, encode_body, encode_document, next_request_id

UNKNOWN_ERROR: Final = 8
"""A fault of the router's own: its log has the traceback."""

_OPERATION_TIME: Final = b"\x11operationTime\x00"
_CLUSTER_TIME: Final = b"\x03$clusterTime\x00"
_INNER_TIME: Final = b"\x11clusterTime\x00"
_TAIL: Final = len(_OPERATION_TIME) + 8 + 1

_INTERNAL: Final = frozenset(("$configTime", "$topologyTime", "lastCommittedOpTime", "$gleStats"))


def encode_reply(
    document: Mapping[str, Any], response_to: int, cluster_time: Mapping[str, Any] | None, *, flags: int = 0
) -> bytes:
    """The reply to request `response_to`. `cluster_time` is used where the document brings none."""
    answer = {name: value for name, value in document.items() if name not in _INTERNAL}
    if cluster_time is not None and "$clusterTime" not in answer:
        answer["$clusterTime"] = cluster_time
        answer.setdefault("operationTime", cluster_time["clusterTime"])
    return encode_body(encode_document(answer), request_id=next_request_id(), response_to=response_to, flags=flags)


def error_document(error: Exception) -> dict[str, Any]:
    """What a client is told of an error."""
    if isinstance(error, RouterError):
        return error.reply()
    if isinstance(error, CommandFailed):
        return dict(error.reply)
    if isinstance(error, ConnectionLost):
        return RouterError(6, "HostUnreachable", str(error)).reply()
    if isinstance(error, TimeoutError):
        return RouterError(89, "NetworkTimeout", str(error) or "a member did not answer in time").reply()
    if isinstance(error, BSONError):
        return RouterError(22, "InvalidBSON", str(error)).reply()
    if isinstance(error, ProtocolError):
        return RouterError(9, "FailedToParse", str(error)).reply()
    text = f"the stand-in router failed on this command ({type(error).__name__}: {error}); its log says where"
    return RouterError(UNKNOWN_ERROR, "UnknownError", text).reply()


def passed_on(reply: Message) -> bytes:
    """The router host's reply as the client gets it: unchanged but for its operationTime.

    The mongod says its own operationTime, which knows nothing of the shards it asked (measured on 6.0.5: a
    clusterInsert answered one far below the inserts). The cluster time it gossips covers them: that is said instead.
    """
    raw = reply.raw
    end = len(raw)
    if not raw.startswith(_OPERATION_TIME, end - _TAIL):
        return raw
    # $clusterTime stands right before it; a search from the end is a fifth of the cost of walking the reply.
    at = raw.rfind(_CLUSTER_TIME, max(0, end - 256))
    if at < 0 or not raw.startswith(_INNER_TIME, at + len(_CLUSTER_TIME) + 4):
        return raw  # of a write with w: 0, which gossips no time
    value = at + len(_CLUSTER_TIME) + 4 + len(_INNER_TIME)
    return b"".join((raw[: end - 9], raw[value : value + 8], b"\x00"))


def moved_document(error: Mapping[str, Any]) -> dict[str, Any] | None:
    """A plainer reply for an update that would move its document to another shard; None for any other error."""
    if error.get("code") != WOULD_CHANGE_OWNING_SHARD:
        return None
    return RouterError(WOULD_CHANGE_OWNING_SHARD, "WouldChangeOwningShard", MOVES_DOCUMENT).reply()
