"""What the router says of itself in `hello`: a mongos that knows no compression, no authentication, no streaming hello.

Drivers take from `msg: isdbgrid` that they talk to a router (driver specification "SDAM"). Pure.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

MAX_WIRE_VERSION: Final = 17
"""6.0."""
MAX_WRITE_BATCH: Final = 100_000
MAX_MESSAGE_BYTES: Final = 47_000_000
"""A little less than a server's 48,000,000: a message grows on its way (a longer name, versions, statement ids)."""


def hello(command: Mapping[str, Any], *, legacy: bool, connection_id: int) -> dict[str, Any]:
    """The reply to hello, or to its legacy names."""
    reply: dict[str, Any] = {
        "ismaster" if legacy else "isWritablePrimary": True,
        "msg": "isdbgrid",
        "maxBsonObjectSize": 16 * 1024 * 1024,
        "maxMessageSizeBytes": MAX_MESSAGE_BYTES,
        "maxWriteBatchSize": MAX_WRITE_BATCH,
        "localTime": datetime.datetime.now(datetime.UTC),
        "logicalSessionTimeoutMinutes": 30,
        "connectionId": connection_id,
        "maxWireVersion": MAX_WIRE_VERSION,
        "minWireVersion": 0,
    }
    if command.get("helloOk"):
        reply["helloOk"] = True
    reply["ok"] = 1.0
    return reply
