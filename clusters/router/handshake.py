"""What the router says of itself in `hello`: a mongos that knows no compression and no authentication.

Drivers take from `msg: isdbgrid` that they talk to a router (driver specification "SDAM"), and from `topologyVersion`
that a hello may wait and be streamed. `loadBalanced` is left unanswered, as by a mongos without that port. Pure.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from clusters.router.errors import RouterError

"""6.0."""
MAX_WRITE_BATCH: Final = 100_000
MAX_MESSAGE_BYTES: Final = 47_000_000
"""A little less than a server's 48,000,000: a message grows on its way (a longer name, versions, statement ids)."""


def seconds_to_wait(command: Mapping[str, Any], version: Mapping[str, Any]) -> float:
    """How long this hello waits for the topology to change: it never does. 0 for one that is answered at once.

    Raises RouterError, in a server's words, for a malformed one.
    """
    known, limit = command.get("topologyVersion"), command.get("maxAwaitTimeMS")
    if known is None and limit is None:
        return 0
    if known is None or limit is None:
        having, lacking = (
            ("a 'topologyVersion'", "'maxAwaitTimeMS'")
            if limit is None
            else ("'maxAwaitTimeMS'", "a 'topologyVersion'")
        )
        raise RouterError(31368, "Location31368", f"A request with {having} must include {lacking}")
    if not isinstance(known, Mapping):
        raise RouterError(14, "TypeMismatch", f"hello expects an object in 'topologyVersion', found {known!r}")
    if known["counter"] < 0:
        raise RouterError(31372, "Location31372", "topologyVersion must have a non-negative counter")
    if limit < 0:
        raise RouterError(
            51024, "Location51024", f"BSON field 'maxAwaitTimeMS' value must be >= 0, actual value '{limit}'"
        )
    return limit / 1000 if known == version else 0


def app_name(command: Mapping[str, Any]) -> str:
    """The application's name in the client metadata of a first hello."""
    client = command.get("client")
    application = client.get("application") if isinstance(client, Mapping) else None
    return str(application.get("name", "")) if isinstance(application, Mapping) else ""


def hello(
    command: Mapping[str, Any], *, legacy: bool, connection_id: int, version: Mapping[str, Any], wire_version: int
) -> dict[str, Any]:
    """The reply to hello, or to its legacy names. `wire_version`: the highest that the cluster's servers speak."""
    reply: dict[str, Any] = {
        "ismaster" if legacy else "isWritablePrimary": True,
        "msg": "isdbgrid",
        "maxBsonObjectSize": 16 * 1024 * 1024,
        "maxMessageSizeBytes": MAX_MESSAGE_BYTES,
        "maxWriteBatchSize": MAX_WRITE_BATCH,
        "localTime": datetime.datetime.now(datetime.UTC),
        "logicalSessionTimeoutMinutes": 30,
        "connectionId": connection_id,
        "maxWireVersion": wire_version,
        "minWireVersion": 0,
        "topologyVersion": version,
    }
    if command.get("helloOk"):
        reply["helloOk"] = True
    reply["ok"] = 1.0
    return reply
