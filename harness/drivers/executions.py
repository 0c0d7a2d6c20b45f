"""One execution of a logical write: numbered, carried out, recorded with what the client knows of its outcome.

It knows the driver and kinds of writes; not why there is another execution, and not what becomes of the record.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Literal

from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError

from harness.drivers.errors import error_fields, one_line
from harness.drivers.kinds import Effect, Kind, WriteOptions, effect_of_bulk
from harness.drivers.writers import PERHAPS, refused
from harness.history import Recorder

SOURCE: Final = "consumer"

Outcome = Literal["ok", "failed", "unknown"]


@dataclass(slots=True)
class Tally:
    """Executions so far, by outcome."""

    begun: int = 0
    ok: int = 0
    failed: int = 0
    unknown: int = 0

    @property
    def in_flight(self) -> int:
        return self.begun - self.ok - self.failed - self.unknown


class Executions:
    """Executions of all consumers: a write's are numbered from 1 on, whoever runs them and however often it came."""

    def __init__(self, recorder: Recorder, kind: Kind) -> None:
        self.tally = Tally()
        self._recorder = recorder
        self._kind = kind
        self._numbers: Counter[str] = Counter()

    async def run(self, collection: Any, write: str, consumer: str, options: WriteOptions) -> Effect | None:
        """One more of this write. Raises what the driver raises, once it is recorded."""
        self._numbers[write] += 1
        execution = self._numbers[write]
        self.tally.begun += 1
        self._recorder.record("execution.begun", SOURCE, write=write, execution=execution, consumer=consumer)
        loop = asyncio.get_running_loop()
        began = loop.time()

        def ended(outcome: Outcome, effect: Effect | None, **error: Any) -> None:
            setattr(self.tally, outcome, getattr(self.tally, outcome) + 1)
            self._recorder.record(
                "execution.ended",
                SOURCE,
                write=write,
                execution=execution,
                outcome=outcome,
                seconds=round(loop.time() - began, 6),
                effect=effect,
                **error,
            )

        try:
            effect = await self._kind.execute(collection, write, execution, options)
        except asyncio.CancelledError:
            ended("unknown", None, **_own("no answer when the consumer was stopped"))
            raise
        except PyMongoError as error:
            ended("failed" if refused_all(error) else "unknown", effect_of_error(error), **error_fields(error))
            raise
        except Exception as error:
            ended("unknown", None, **_own(one_line(error)))
            raise
        ended("ok", effect, **_own(None))
        return effect


def refused_all(error: PyMongoError) -> bool:
    """Whether the server's answer says that nothing was written; of a bulk: that none of its operations was."""
    if not isinstance(error, BulkWriteError):
        return refused(error)
    operations = error.details.get("writeErrors", [])
    return (
        bool(operations)
        and not error.details.get("writeConcernErrors")
        and not any(effect_of_bulk(error.details).values())
        and all(one.get("code") not in PERHAPS for one in operations)
    )


def effect_of_error(error: PyMongoError) -> Effect | None:
    """What was done of a bulk that failed in part; None where the error does not say."""
    return effect_of_bulk(error.details) if isinstance(error, BulkWriteError) else None


def is_one_of(error: BaseException, names: frozenset[str | int]) -> bool:
    """Whether the error is named: by its class or a class above it, by its code, or by the code's name."""
    if any(kind.__name__ in names for kind in type(error).__mro__):
        return True
    if not isinstance(error, OperationFailure):
        return False
    return error.code in names or (error.details or {}).get("codeName") in names


def _own(error: str | None) -> dict[str, Any]:
    return {"error": error, "code": None, "code_name": None, "labels": []}
