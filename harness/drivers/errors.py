"""What a pymongo error says, as plain data for the history. Knows no stream and no write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pymongo.errors import OperationFailure, PyMongoError

LABELS: Final = (
    "ResumableChangeStreamError",
    "RetryableWriteError",
    "NoWritesPerformed",
    "TransientTransactionError",
    "UnknownTransactionCommitResult",
)


def error_fields(error: BaseException) -> dict[str, Any]:
    """`error, code, code_name, labels` of an error; code and code_name are None for network errors."""
    code = code_name = None
    if isinstance(error, OperationFailure):
        code = error.code
        code_name = (error.details or {}).get("codeName")
    labels = [label for label in LABELS if error.has_error_label(label)] if isinstance(error, PyMongoError) else []
    return {"error": one_line(error), "code": code, "code_name": code_name, "labels": labels}


def failure_fields(failure: Mapping[str, Any]) -> dict[str, Any]:
    """The same from the failure document of a command listener's event."""
    return {
        "error": str(failure.get("errmsg", failure))[:300],
        "code": failure.get("code"),
        "code_name": failure.get("codeName"),
        "labels": list(failure.get("errorLabels", ())),
    }


def one_line(error: BaseException) -> str:
    """Class and first 300 characters of the message; pymongo repeats whole replies and topologies in it."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
