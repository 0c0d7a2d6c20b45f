"""A client's getMore on a change stream, checked against the stream it is for. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters.router.errors import RouterError
from clusters.router.stream_request import StreamRequest, whole_number

AWAIT_MS: Final = 1000
"""How long a getMore waits that has no maxTimeMS."""
NO_LIMIT: Final = 1 << 31

_FIELDS: Final = frozenset(("getMore", "collection", "batchSize", "maxTimeMS", "comment", "lsid"))
_GENERIC: Final = frozenset(("apiVersion", "apiStrict", "apiDeprecationErrors", "readConcern", "writeConcern"))
_NO_USER: Final = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
"""How a server writes a session's owner where nobody has logged in: the SHA-256 of nothing."""


@dataclass(frozen=True, slots=True)
class GetMore:
    """`wait_ms` is how long it waits for a first event; `comment` goes with the shard getMores."""

    wait_ms: int
    limit: int
    comment: Any

    @classmethod
    def of(cls, command: Mapping[str, Any], request: StreamRequest) -> GetMore:
        """Raises RouterError in the words of a server; the sessions' codes are a mongos's."""
        for name in command:
            if name not in _FIELDS and name not in _GENERIC and not name.startswith("$"):
                raise RouterError(40415, "Location40415", f"BSON field 'getMore.{name}' is an unknown field.")
        if "collection" not in command:
            raise RouterError(40414, "Location40414", "BSON field 'getMore.collection' is missing but a required field")
        wait_ms = whole_number("getMore.maxTimeMS", command.get("maxTimeMS"))
        limit = whole_number("batchSize", command.get("batchSize"))
        asked = f"{command.get('$db')}.{command['collection']}"
        if asked != request.namespace:
            raise RouterError(
                13,
                "Unauthorized",
                f"Requested getMore on namespace '{asked}', but cursor belongs to a different namespace"
                f" {request.namespace}",
            )
        _check_session(command["getMore"], request.lsid, command.get("lsid"))
        return cls(wait_ms or AWAIT_MS, limit or NO_LIMIT, command.get("comment"))


def _check_session(cursor_id: int, created: Mapping[str, Any] | None, asking: Mapping[str, Any] | None) -> None:
    if created == asking:
        return
    what = f"Cannot run getMore on cursor {cursor_id}, which was"
    if created is None:
        raise RouterError(50799, "Location50799", f"{what} not created in a session, in session {_session(asking)}")
    if asking is None:
        raise RouterError(50800, "Location50800", f"{what} created in session {_session(created)}, without an lsid")
    raise RouterError(
        50801, "Location50801", f"{what} created in session {_session(created)}, in session {_session(asking)}"
    )


def _session(lsid: Mapping[str, Any] | None) -> str:
    assert lsid is not None
    return f"{uuid.UUID(bytes=bytes(lsid['id']))} - {_NO_USER} -  - "
