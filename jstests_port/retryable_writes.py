"""Retryable writes numbered by hand, and what the answer to a retry repeats (jstests/libs/retryable_writes_util.js)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from bson.binary import UUID_SUBTYPE, Binary
from bson.int64 import Int64

from jstests_port.mongo import Document

REPEATED = ("ok", "n", "nModified", "upserted", "writeErrors", "writeConcernErrors", "value", "lastErrorObject")
"""All of an answer but its times and `retriedStmtIds`."""


def numbered(command: Mapping[str, Any], lsid: Mapping[str, Any], number: int) -> Document:
    """The command as a retryable write: of that session, under that `txnNumber`."""
    return {**command, "lsid": lsid, "txnNumber": Int64(number)}


def new_lsid() -> Document:
    """A session nobody has used."""
    return {"id": Binary(uuid.uuid4().bytes, UUID_SUBTYPE)}


def assert_same_answer(first: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    """The write succeeded, and its retry says what it said."""
    assert first["ok"] == 1, first
    assert {name: again.get(name) for name in REPEATED} == {name: first.get(name) for name in REPEATED}
