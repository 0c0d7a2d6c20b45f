"""The runs of the suite: parameters of `retry-overlap` by a name, so that several questions may ask one run. Data.

Short timeouts and few executions: what is counted does not depend on how long it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SOCKET: Final = "socketTimeoutMS=500"
SHORT: Final = "socketTimeoutMS=300"
MAX_TIME: Final = 0.3
"""Seconds; below `LONG`, the socket timeout that goes with it."""
LONG: Final = "socketTimeoutMS=700"

CHECKED: Final = '{"shouldCheckForInterrupt":true}'
"""Data with which a fail point of a findAndModify can be interrupted; without, it cannot."""


def _fails(*options: str, driver: str = SOCKET, **more: Any) -> dict[str, Any]:
    """One execution of an insert that fail-command does something to."""
    return {
        "retry": "none",
        "fault_option": ["commands=insert", "namespace=watched", *options],
        "driver_option": [driver],
        **more,
    }


def _hangs(driver: str = SHORT, **more: Any) -> dict[str, Any]:
    """Four executions of a write that is held inside the engine."""
    return {"fault": "fail-point", "driver_option": [driver], **more}


def _found_and_modified(fault: str, **more: Any) -> dict[str, Any]:
    """Three executions of the one write for which the driver has a maxTimeMS."""
    return {"fault": fault, "write": "find-and-modify", "driver_option": [LONG], "retry": "fixed(0s,2)", **more}


def _with_max_time(fault: str, **more: Any) -> dict[str, Any]:
    return _found_and_modified(fault, max_time=MAX_TIME, **more)


def _frozen(**more: Any) -> dict[str, Any]:
    return {"fault": "freeze", "driver_option": [SOCKET], **more}


OVERLOAD: Final = "errorLabels=RetryableError,SystemOverloadedError,RetryableWriteError"

RUNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "procedure": {"driver_option": [SOCKET]},
    "procedure-motor": {"driver_option": [SOCKET], "driver": "motor"},
    "engine": _hangs(SOCKET),
    "engine-update": _hangs(write="inc"),
    "engine-delayed": _hangs(retry="fixed(1s,3)"),
    "maximum-10x1": _hangs(retry="fixed(0s,9)"),
    "maximum-4x5": _hangs(consumers=5),
    "maximum-4x5-shared": _hangs(consumers=5, shared_client=True),
    "maximum-10x3": _hangs(retry="fixed(0s,9)", consumers=3),
    "no-retry": _hangs() | {"driver_option": [SHORT, "retryWrites=false"]},
    "no-retry-10x3": _hangs(retry="fixed(0s,9)", consumers=3) | {"driver_option": [SHORT, "retryWrites=false"]},
    "one-session": _hangs(explicit_session=True),
    "closed": _fails("closeConnection=yes"),
    "closed-csot": _fails("closeConnection=yes", driver="timeoutMS=2000"),
    "hang-csot": {"retry": "none", "driver_option": ["timeoutMS=1500"]},
    "error-91": _fails("errorCode=91"),
    "error-91-csot": _fails("errorCode=91", driver="timeoutMS=2000"),
    "labelled": _fails("errorCode=6", "errorLabels=RetryableWriteError"),
    "labelled-csot": _fails("errorCode=6", "errorLabels=RetryableWriteError", driver="timeoutMS=1000"),
    "overload": _fails("errorCode=462", OVERLOAD),
    "overload-csot": _fails("errorCode=462", OVERLOAD, driver="timeoutMS=5000"),
    "error-50": _fails("errorCode=50"),
    "error-262": _fails("errorCode=262"),
    "w0-closed": _fails("closeConnection=yes", write="w0"),
    "w0-held": _fails("blockTimeMS=1500", write="w0"),
    "update-many": _hangs(write="update-many"),
    "delete-many": _hangs(write="delete-many"),
    "lock": _found_and_modified("lock-wait"),
    "lock-max-time": _with_max_time("lock-wait"),
    "conflict": _found_and_modified("write-conflict"),
    "conflict-max-time": _with_max_time("write-conflict"),
    "tickets": _found_and_modified("no-tickets"),
    "tickets-max-time": _with_max_time("no-tickets"),
    "max-time-held": _with_max_time("fail-command"),
    "max-time-uninterruptible": _with_max_time("fail-point"),
    "max-time-interruptible": _with_max_time(
        "fail-point", fault_option=["point=hangBeforeFindAndModifyPerformsUpdate", f"data={CHECKED}"]
    ),
    "max-time-frozen": _with_max_time("freeze"),
    "frozen": _frozen(),
    "frozen-cold": _frozen(pool="cold"),
    "frozen-business-id": _frozen(write="insert-business-id"),
    "frozen-replace": _frozen(write="replace-upsert"),
    "frozen-inc": _frozen(write="inc"),
    "failover": _frozen(members=3, election_timeout=3.0, hold=10.0) | {"driver_option": ["socketTimeoutMS=1000"]},
    "sharded": _hangs(shards=2),
}
"""By name. What is not said is the scenario's default: 4 executions, one consumer, one record, one member."""
