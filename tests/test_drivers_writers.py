"""What a write's error means, and the order in which documents get their turn."""

from __future__ import annotations

import pytest
from pymongo.errors import AutoReconnect, NetworkTimeout, OperationFailure, PyMongoError, WriteError, WTimeoutError

from harness.drivers.writers import Document, interleave, refused

ERRORS: list[tuple[PyMongoError, bool]] = [
    (WriteError("Document failed validation", 121), True),
    (OperationFailure("not authorized", 13), True),
    (WTimeoutError("waiting for replication timed out", 64), False),
    (WriteError("a router could not reach the shard", 6), False),
    (OperationFailure("operation exceeded time limit", 50), False),
    (OperationFailure("interrupted by a stepdown", 11602), False),
    (AutoReconnect("connection closed"), False),
    (NetworkTimeout("timed out"), False),
]


@pytest.mark.parametrize(("error", "is_refused"), ERRORS, ids=[str(row[0])[:40] for row in ERRORS])
def test_only_what_the_server_turned_down_did_not_happen(error: PyMongoError, is_refused: bool) -> None:
    assert refused(error) is is_refused


def test_every_shard_gets_its_turn_at_any_rate() -> None:
    documents = [Document(name, name[0], {}) for name in ("x1", "x2", "x3", "y1", "z1", "z2")]
    assert [one.key for one in interleave(documents)] == ["x1", "y1", "z1", "x2", "z2", "x3"]
