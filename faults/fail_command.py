"""`fail-command`: the commands named fail, or get no answer for a while, or lose their connection; nothing else does.

The server's own fail point failCommand, with its options by its own names; the command is not carried out, but one that
is only blocked is, afterwards. Proven by the fail point's count, and by a command of our own that fares so.

A maxTimeMS does not cut a block short, killOp does. Where aggregate is blocked, so is `$currentOp`, which is one. To
heal is to wait for what is blocked; new commands go through at once. With `times` what is held is the fail point on,
used up or not. (Measured on 6.0.5.)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from bson.int64 import Int64
from pydantic import Field, model_validator

from clusters.guard import Undo
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from faults import means
from faults.base import Evidence, Site, Unproven, register
from faults.direct import ANSWER
from faults.failpoint import FailPoint
from faults.harmless import HARMLESS
from faults.options import Names, Options

FAIL_POINT: Final = "failCommand"
PROOF_DEADLINE = 10.0
"""Seconds until a command must have run into it: at once, where one of our own does."""
POLL = 0.05
LONGEST_BLOCK = 20_000
"""Milliseconds: who heals after a kill waits for what is blocked, and has 30 s in all."""
WATCHED: Final = "watched"
"""In the place of a namespace: that of the site, which nobody knows beforehand in a run."""
OTHERS: Final = "mongofault_fail_command.nothing"
"""Where our own commands go if no namespace is given; nothing is ever there."""

OURS: Final = "mongofault"
"""What the application names of our own connections begin with."""

PROBED: Final = frozenset(HARMLESS) - {"insert"}
"""Of the harmless ones those that are sent: to inserts the load's own run into it, and are counted as such."""
NEEDED: Final = frozenset(("hello", "isMaster", "ismaster", "getParameter"))
"""Without these nobody can connect, or look, to switch it off."""
ADMIN: Final[Mapping[str, Mapping[str, Any]]] = {
    "getMore": {"getMore": Int64(1), "collection": "nothing"},
    "hello": {"hello": 1},
    "ping": {"ping": 1},
    "serverStatus": {"serverStatus": 1},
    "replSetGetStatus": {"replSetGetStatus": 1},
}


class FailCommandOptions(Options):
    """Options of `fail-command`; all but the first as failCommand has them."""

    commands: Names = Field(min_length=1, description="The commands that fail, as find,aggregate.")
    errorCode: int | None = Field(default=None, description="Error with which they fail.")
    errorLabels: Names = Field(default=(), description="Labels of that error, in the place of the server's own.")
    closeConnection: bool = Field(default=False, description="The connection is closed instead of an answer.")
    blockTimeMS: int | None = Field(default=None, gt=0, le=LONGEST_BLOCK, description="They are blocked for so long.")
    appName: str | None = Field(default=None, description="Only those of clients with this application name.")
    namespace: str | None = Field(default=None, description="Only those on DATABASE.COLLECTION; 'watched': the load's.")
    failInternalCommands: bool = Field(default=False, description="Those of other servers too.")
    times: int | None = Field(default=None, gt=0, description="The first so many only; else all.")

    @model_validator(mode="after")
    def _something_happens(self) -> FailCommandOptions:
        if self.errorCode is None and not self.closeConnection and self.blockTimeMS is None:
            raise ValueError("expected errorCode, closeConnection or blockTimeMS: nothing would happen to a command")
        if self.errorLabels and self.errorCode is None:
            raise ValueError("errorLabels are an error's: give an errorCode as well")
        if NEEDED & {*self.commands} and (self.appName or OURS).startswith(OURS):
            raise ValueError(f"{', '.join(self.commands)}: give an appName, or nobody could connect to switch it off")
        return self

    def conditions(self) -> dict[str, Any]:
        """What configureFailPoint takes as `data`."""
        own = self.model_dump(exclude={"commands", "times"}, exclude_defaults=True)
        if self.errorLabels:
            own["errorLabels"] = list(self.errorLabels)
        block = {} if self.blockTimeMS is None else {"blockConnection": True}
        return {"failCommands": list(self.commands), **own, **block}


@register
class FailCommand:
    """Let commands fail on one member; see the module."""

    name: ClassVar[str] = "fail-command"
    options: ClassVar[type[Options]] = FailCommandOptions
    # Who knows which commands: hello may be one of them.
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that runs with enableTestCommands=1"
    proven_by: ClassVar[str] = "the fail point's count, and a command of our own that fares so"
    healed_by: ClassVar[str] = "the fail point off, and seen to be off, when what it blocks has ended"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any) -> None:
        self.target = site.target
        self._site = site
        if options.namespace == WATCHED and site.namespace is not None:
            options = options.model_copy(update={"namespace": site.namespace})
        self._options: FailCommandOptions = options
        self._probe = _probe(options)
        # The one that proves it is not taken from the times that were asked for.
        times = options.times and options.times + (self._probe is not None)
        self._fail_point = FailPoint(
            site.target.host,
            FAIL_POINT,
            options.conditions(),
            mode={"times": times} if times else "alwaysOn",
            patience=ANSWER + (options.blockTimeMS or 0) / 1000,
        )

    async def available(self) -> str | None:
        if self._options.namespace == WATCHED:
            return "it is to strike commands on the watched namespace, and none was given"
        return means.stand_in(self._site) or await means.obstacle(self.target, self._fail_point)

    def undo(self) -> Sequence[Undo]:
        return [self._fail_point.undo()]

    async def inject(self) -> None:
        await self._fail_point.on()

    async def proof(self) -> Evidence:
        probe = asyncio.create_task(self._fared())
        end = time.monotonic() + PROOF_DEADLINE
        try:
            while time.monotonic() < end:
                times = await self._fail_point.entered()
                if times > 0 and (probe.done() or self._options.blockTimeMS is not None):
                    fared = probe.result() if probe.done() else "ours has no answer yet"
                    return Evidence(
                        f"{', '.join(self._options.commands)} on {self.target.name}: {fared}; "
                        f"{self._fail_point} entered {times} times",
                        {"entered": times, "probe": fared, "data": self._options.conditions()},
                    )
                await asyncio.sleep(POLL)
        finally:
            probe.cancel()
            with suppress(asyncio.CancelledError):
                await probe
        fared = probe.result() if probe.done() and not probe.cancelled() else "none was answered"
        raise Unproven(
            f"{', '.join(self._options.commands)} on {self.target.name} did not run into {FAIL_POINT}: {fared}"
        )

    async def active(self) -> bool:
        return await means.acts(self._fail_point)

    async def heal(self) -> None:
        await means.switch_off(self.target, self._fail_point)

    async def _fared(self) -> str:
        """How a command of ours fared, in words. Where there is none to be sent, it is for the load to run into it."""
        if self._probe is None:
            return "none of these can be sent without effect, so those of others are counted"
        database, command = self._probe
        app_name = self._options.appName or OURS
        try:
            connection = await Connection.open(self.target.host, deadline=ANSWER, app_name=app_name)
            try:
                await connection.command(database, command, deadline=ANSWER + LONGEST_BLOCK / 1000)
            finally:
                connection.close()
        except CommandFailed as error:
            return f"ours failed with {error.code} {error.code_name}"
        except ConnectionLost:
            return "ours lost its connection"
        except DeadlinePassed:
            return "ours had no answer"
        return "ours was answered"


def _probe(options: FailCommandOptions) -> tuple[str, dict[str, Any]] | None:
    """One of the commands, and its database, in a form without effect."""
    database, _, collection = (options.namespace or OTHERS).partition(".")
    for name in options.commands:
        if name in PROBED:
            anywhere = {"$readPreference": {"mode": "secondaryPreferred"}}
            return database, {name: collection, **HARMLESS[name], **anywhere}
        if name in ADMIN and options.namespace is None:
            return "admin", dict(ADMIN[name])
    return None
