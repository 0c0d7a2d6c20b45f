"""A paced writer: single updates with a running sequence per document, majority acknowledged, over all shards.

Each op's outcome is recorded as the client knows it: ok, failed (the server refused it), or unknown (sent, and no
one can tell). What became of the unknown ones is for the checkers.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pymongo import WriteConcern
from pymongo.errors import OperationFailure, PyMongoError, WriteError

from harness.drivers.clients import Driver, OptionValue, close_client, open_client
from harness.drivers.errors import error_fields, one_line
from harness.history import Recorder

SOURCE: Final = "writer"

REFUSED: Final = {2, 9, 13, 14, 18, 20, 26, 59, 72, 73, 8000}
"""Error codes of a command that was turned down before it wrote anything: BadValue, FailedToParse, Unauthorized,
TypeMismatch, AuthenticationFailed, IllegalOperation, NamespaceNotFound, CommandNotFound, InvalidOptions,
InvalidNamespace. Anything else may have been applied by an attempt that the driver made before."""

PERHAPS: Final = {
    6,
    7,
    24,
    50,
    63,
    89,
    91,
    112,
    133,
    150,
    189,
    202,
    262,
    9001,
    10107,
    11600,
    11601,
    11602,
    13388,
    13435,
    13436,
}
"""Codes that a router puts into `writeErrors` without the shard having refused: network errors, timeouts, state
changes, no primary found to send to again, interruptions, stale routing."""

CATCH_UP: Final = 1.0
"""Seconds of missed slots that are made up for; a longer hold-up of this process does not end in a burst."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the load: its `_id`, the shard that owns it, and the filter that targets it."""

    key: Any
    shard: str
    filter: Mapping[str, Any]


@dataclass(slots=True)
class Counters:
    """Ops so far. `skipped`: slots at which every document had an op in flight."""

    invoked: int = 0
    ok: int = 0
    failed: int = 0
    unknown: int = 0
    skipped: int = 0

    @property
    def in_flight(self) -> int:
        return self.invoked - self.ok - self.failed - self.unknown


@dataclass(slots=True)
class _State:
    document: Document
    seq: int = 0
    busy: bool = False


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """`rate` is writes per second in total; `wtimeout_ms` bounds the wait for the majority."""

    uri: str = field(repr=False)
    namespace: str
    run: str
    documents: Sequence[Document]
    rate: float
    wtimeout_ms: int = 10_000
    driver_options: Mapping[str, OptionValue] = field(default_factory=dict)
    driver: Driver = "pymongo"


class Writer:
    """One op in flight per document, so that the order per document is defined; different documents overlap."""

    def __init__(self, recorder: Recorder, plan: WriterPlan) -> None:
        if not plan.documents or plan.rate <= 0:
            raise ValueError(f"writer: expected documents and a rate > 0, found {len(plan.documents)}, {plan.rate:g}")
        self.plan = plan
        self.counters = Counters()
        self._recorder = recorder
        self._states = deque(_State(document) for document in interleave(plan.documents))
        self._client = open_client(
            plan.uri,
            options=plan.driver_options,
            app_name=f"mongofault {plan.run} writer"[:128],
            driver=plan.driver,
        )
        database, _, collection = plan.namespace.partition(".")
        self._collection = self._client[database][collection].with_options(
            write_concern=WriteConcern(w="majority", wtimeout=plan.wtimeout_ms)
        )
        self._stopping = asyncio.Event()
        self._pacing: asyncio.Task[None] | None = None
        self._ops: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Writing goes on until `stop`. The documents exist already; an update that matches none is a failed one."""
        self._pacing = asyncio.create_task(self._pace(), name="writer")

    async def stop(self, *, deadline: float = 5.0) -> None:
        """No new ops; waits for those in flight. What has no answer after `deadline` seconds is recorded unknown."""
        self._stopping.set()
        if self._pacing is not None:
            await self._pacing
        if self._ops:
            _, pending = await asyncio.wait(self._ops, timeout=deadline)
            for task in pending:
                task.cancel()
            if pending:
                await asyncio.wait(pending, timeout=1.0)
        await close_client(self._client)

    async def _pace(self) -> None:
        loop = asyncio.get_running_loop()
        slot = loop.time()
        while not self._stopping.is_set():
            self._write_next()
            slot = max(slot + 1 / self.plan.rate, loop.time() - CATCH_UP)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(slot):
                    await self._stopping.wait()

    def _write_next(self) -> None:
        for _ in range(len(self._states)):
            state = self._states[0]
            self._states.rotate(-1)
            if not state.busy:
                task = asyncio.create_task(self._write(state), name=f"write {state.document.key}")
                state.busy = True
                self._ops.add(task)
                task.add_done_callback(self._ops.discard)
                return
        self.counters.skipped += 1

    async def _write(self, state: _State) -> None:
        document = state.document
        state.seq += 1
        seq = state.seq
        self.counters.invoked += 1
        self._recorder.record("write.invoked", SOURCE, key=document.key, seq=seq, shard=document.shard)
        try:
            result = await self._collection.update_one(
                document.filter,
                {"$set": {"seq": seq}},
                comment={"run": self.plan.run, "write": f"{document.key}/{seq}"},
            )
        except asyncio.CancelledError:
            self._outcome("unknown", document.key, seq, error="no answer when the writer was stopped", code=None)
            raise
        except PyMongoError as error:
            fields = error_fields(error)
            kind = "failed" if refused(error) else "unknown"
            self._outcome(kind, document.key, seq, error=fields["error"], code=fields["code"])
        except Exception as error:
            self._outcome("unknown", document.key, seq, error=one_line(error), code=None)
            raise
        else:
            if result.matched_count == 1:
                self._outcome("ok", document.key, seq)
            else:
                self._outcome("failed", document.key, seq, error=f"matched {result.matched_count}", code=None)
        finally:
            state.busy = False

    def _outcome(self, outcome: str, key: Any, seq: int, **fields: Any) -> None:
        setattr(self.counters, outcome, getattr(self.counters, outcome) + 1)
        self._recorder.record(f"write.{outcome}", SOURCE, key=key, seq=seq, **fields)


class Writers:
    """Several writers of one collection, each with documents and a client of its own; at least one."""

    def __init__(self, recorder: Recorder, plan: WriterPlan, count: int = 1) -> None:
        """`plan` is of all of them together: documents and rate are shared out. Raises ValueError."""
        if len(plan.documents) < count:
            raise ValueError(f"writers: expected a document for each of {count}, found {len(plan.documents)}")
        shares = (interleave(plan.documents)[number::count] for number in range(count))
        self._writers = [
            Writer(recorder, replace(plan, documents=documents, rate=plan.rate / count)) for documents in shares
        ]
        self.plan = plan

    @property
    def counters(self) -> Counters:
        """Of all together."""
        each = [asdict(one.counters) for one in self._writers]
        return Counters(**{name: sum(one[name] for one in each) for name in each[0]})

    async def start(self) -> None:
        for one in self._writers:
            await one.start()

    async def stop(self) -> None:
        await asyncio.gather(*(one.stop() for one in self._writers))


def interleave(documents: Iterable[Document]) -> list[Document]:
    """Round-robin over the shards, so that every shard gets its share at any rate."""
    by_shard: dict[str, list[Document]] = {}
    for document in documents:
        by_shard.setdefault(document.shard, []).append(document)
    rounds = itertools.zip_longest(*by_shard.values())
    return [document for one_round in rounds for document in one_round if document is not None]


def refused(error: PyMongoError) -> bool:
    """Whether the server's answer says that nothing was written; a majority that did not come in time is no refusal."""
    if isinstance(error, WriteError):
        return error.code not in PERHAPS
    return isinstance(error, OperationFailure) and error.code in REFUSED
