"""What an execution's error means: whether anything can have been written, and how an error is named."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.errors import BulkWriteError, DuplicateKeyError, NetworkTimeout, OperationFailure, PyMongoError, WriteError

from harness.drivers.executions import effect_of_error, is_one_of, refused_all

REFUSAL: dict[str, Any] = {"index": 0, "code": 121, "errmsg": "Document failed validation"}
INTERRUPTED: dict[str, Any] = {"index": 0, "code": 11600, "errmsg": "interrupted"}


def bulk(*errors: dict[str, Any], inserted: int = 0, concern: bool = False) -> BulkWriteError:
    details = {"writeErrors": list(errors), "writeConcernErrors": [{"code": 64}] if concern else []}
    counts = {"nInserted": inserted, "nMatched": 0, "nModified": 0, "nUpserted": 0, "nRemoved": 0}
    return BulkWriteError({**details, **counts})


ERRORS: list[tuple[str, PyMongoError, bool]] = [
    ("a refused document", WriteError("Document failed validation", 121), True),
    ("a duplicate key", DuplicateKeyError("there", 11000), True),
    ("a lost answer", NetworkTimeout("timed out"), False),
    ("a time limit", OperationFailure("exceeded", 50), False),
    ("a bulk refused as a whole", bulk(REFUSAL, REFUSAL), True),
    ("a bulk of which one was refused", bulk(REFUSAL, inserted=1), False),
    ("a bulk that was interrupted", bulk(REFUSAL, INTERRUPTED), False),
    ("a bulk that the majority has not yet", bulk(concern=True), False),
    ("a bulk refused, and not by the majority yet", bulk(REFUSAL, concern=True), False),
    ("a bulk that says nothing", bulk(), False),
]


@pytest.mark.parametrize(("error", "is_refused"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_failed_is_only_what_surely_wrote_nothing(error: PyMongoError, is_refused: bool) -> None:
    assert refused_all(error) is is_refused


def test_a_bulk_that_failed_in_part_says_what_it_did() -> None:
    nothing = dict.fromkeys(("matched", "modified", "inserted", "upserted", "deleted"), 0)
    assert effect_of_error(bulk(REFUSAL, inserted=2)) == {**nothing, "inserted": 2}
    assert effect_of_error(NetworkTimeout("timed out")) is None


@pytest.mark.parametrize(
    ("error", "name", "is_named"),
    [
        (NetworkTimeout("timed out"), "NetworkTimeout", True),
        (NetworkTimeout("timed out"), "AutoReconnect", True),
        (NetworkTimeout("timed out"), "OperationFailure", False),
        (OperationFailure("exceeded", 50, {"codeName": "MaxTimeMSExpired"}), 50, True),
        (OperationFailure("exceeded", 50, {"codeName": "MaxTimeMSExpired"}), "MaxTimeMSExpired", True),
        (OperationFailure("exceeded", 50), 262, False),
        (OperationFailure("exceeded", 50), "MaxTimeMSExpired", False),
    ],
)
def test_an_error_is_named_by_its_class_one_above_it_its_code_or_the_codes_name(
    error: PyMongoError, name: str | int, is_named: bool
) -> None:
    assert is_one_of(error, frozenset({name})) is is_named
    assert not is_one_of(error, frozenset())
