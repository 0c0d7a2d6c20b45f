"""`write-conflict`: documents of the watched namespace are held by an open transaction: writes of them conflict.

The server tries such a write again and again, and looks for interrupts in between: maxTimeMS ends it. Not so the insert
or upsert of an `_id` that the transaction is about to make: nothing interrupts that one, and it may be made when the
transaction is gone, long after its time (all measured on 6.0.5). The transaction changes nothing that is seen: it is
aborted at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from bson import Int64
from pydantic import Field, model_validator

from clusters.guard import Undo
from clusters.wire.connection import CommandFailed
from faults import means
from faults.base import Evidence, Site, Unproven, register
from faults.direct import FAILURES, Direct, NoAnswer
from faults.options import Document, Names, Options
from faults.parameter import Parameter
from faults.sessions import OwnSession, given_back

LIFETIME: Final = "transactionLifetimeLimitSeconds"
LONGEST: Final = 7200
"""Seconds that the transaction may be open; 60 by default."""
CONFLICT: Final = 112
FIELD: Final = "mongofault_held"


class WriteConflictOptions(Options):
    """Options of `write-conflict`."""

    ids: Names = Field(
        default=(), description="The documents with these strings as _id, and others cannot make them; else by filter."
    )
    filter: Document = Field(default_factory=dict, description="Documents that there are, as extended JSON. [all]")

    @model_validator(mode="after")
    def _one_way(self) -> WriteConflictOptions:
        if self.ids and self.filter:
            raise ValueError("ids and filter do not go together: expected one of them")
        return self


@register
class WriteConflict:
    """Hold documents by an open transaction; see the module."""

    name: ClassVar[str] = "write-conflict"
    options: ClassVar[type[Options]] = WriteConflictOptions
    spares_health: ClassVar[bool] = True
    needs: ClassVar[str] = "a primary, and a namespace"
    proven_by: ClassVar[str] = "another transaction of ours, which gets a write conflict on the same documents"
    healed_by: ClassVar[str] = "the transaction is aborted, and currentOp has it no more"
    aim: ClassVar[str] = "primary"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._namespace = site.namespace
        self._options: WriteConflictOptions = options or WriteConflictOptions()
        self._server = Direct(site.target.host)
        self._holding = OwnSession(site.target.host)
        self._trying = OwnSession(site.target.host)
        self._lifetime = Parameter(site.target.host, LIFETIME, LONGEST)

    async def available(self) -> str | None:
        if self._namespace is None:
            return "it holds documents of one namespace, and none was given"
        if reason := await means.no_primary(self.target):
            return reason
        try:
            limit = await self._lifetime.now(self.target)
        except NoAnswer as error:
            return str(error)
        if limit == LONGEST:
            return f"{self.target.name} has {LIFETIME} at {LONGEST} already, and not by this run: set it back first"
        self._lifetime.plan(limit)
        return None

    def undo(self) -> Sequence[Undo]:
        return [self._lifetime.undo(), self._holding.undo()]

    async def inject(self) -> None:
        await self._lifetime.on(self._server)
        reply = await self._update(self._holding)
        if not reply["n"]:
            raise Unproven(f"{self._namespace} has no documents that could be held: name them with ids=A,B,..")

    async def proof(self) -> Evidence:
        """The server aborts a transaction that conflicts, at once."""
        try:
            await self._update(self._trying)
        except CommandFailed as error:
            if error.code == CONFLICT:
                return Evidence(
                    f"a second transaction of ours on the documents of {self._namespace} that are held on "
                    f"{self.target.name} got a write conflict",
                    {"code": error.code, "namespace": self._namespace},
                )
            raise
        finally:
            await self._trying.end(self._server)
        raise Unproven(f"another transaction on {self.target.name} may write the documents of {self._namespace}")

    async def active(self) -> bool:
        try:
            return await self._holding.running(self._server) > 0
        except FAILURES:
            return False

    async def heal(self) -> None:
        try:
            await given_back(self.target, self._server, [self._holding, self._trying], self._lifetime)
        finally:
            self._server.close()

    async def _update(self, session: OwnSession) -> Mapping[str, Any]:
        """In a transaction that stays open. Raises CommandFailed."""
        assert self._namespace is not None
        database, _, collection = self._namespace.partition(".")
        change = {"$set": {FIELD: True}}
        updates: list[dict[str, Any]] = [{"q": {"_id": one}, "u": change, "upsert": True} for one in self._options.ids]
        command = {
            "update": collection,
            "updates": updates or [{"q": self._options.filter, "u": change, "multi": True}],
            "lsid": session.lsid,
            "txnNumber": Int64(1),
            "startTransaction": True,
            "autocommit": False,
        }
        return await self._server.command(command, database=database)
