"""The fail point `failCommand` of the router itself: it acts on what clients send to the router, as a mongos's does.

Knows commands by name and fields; what a command does is elsewhere. Whoever answers a command must come through
`before` and `after` while `armed` is true. Semantics and words measured on a 6.0.5 mongod; as on a mongos, an error
code alone brings no RetryableWriteError: that label is for those who retry the write of a shard's primary.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from clusters.router import codes
from clusters.router.errors import RESUMABLE, RouterError

NAME: Final = "failCommand"
_ALIASES: Final = {"ismaster": "isMaster", "findandmodify": "findAndModify", "buildinfo": "buildInfo",
                   "collstats": "collStats", "dbstats": "dbStats", "mapreduce": "mapReduce",
                   "deleteIndexes": "dropIndexes"}  # fmt: skip
_NOT_BUILT: Final = ("errorExtraInfo", "threadName", "failLocalClients", "multiTenant")
_WRITE_CONCERN: Final = frozenset(
    ("insert", "update", "delete", "findAndModify", "aggregate", "create", "createIndexes", "drop", "dropDatabase",
     "dropIndexes", "collMod", "renameCollection", "convertToCapped", "shardCollection", "enableSharding",
     "movePrimary", "setDefaultRWConcern", "setFeatureCompatibilityVersion")
)  # fmt: skip
"""Commands that take a write concern: only these can be answered with a `writeConcernError`."""
_MODES: Final = "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or '{activationProbability:p}'"


class Sender(Protocol):
    """The client a command came from."""

    app_name: str

    def close(self) -> None:
        """Cut the connection."""


class FailCommand:
    """Off until configured. `seed` fixes the choices of activationProbability."""

    def __init__(self, seed: int) -> None:
        self.armed = False
        """Whether any command may have to be failed: looked at before every command."""
        self._random = random.Random(seed)
        self._mode: str = "off"
        self._left = 0
        self._probability = 0.0
        self._data: Mapping[str, Any] = {}
        self._entered = 0
        self._entries = asyncio.Condition()

    def configure(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to `configureFailPoint: 'failCommand'`; `count` is how often it has acted so far."""
        mode, value = _mode(command)
        data = command.get("data", {})
        if not isinstance(data, Mapping):
            raise RouterError(14, "TypeMismatch", "the 'data' option must be a JSON object")
        for name in _NOT_BUILT:
            if name in data:
                raise RouterError(
                    115, "CommandNotSupported", f"failCommand of the stand-in router does not do {name!r}; leave it out"
                )
        self._mode, self._data = mode, data
        self._left = int(value)
        self._probability = value
        self.armed = mode != "off"
        return {"count": self._entered, "ok": 1.0}

    async def wait(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """waitForFailPoint: until it has acted `timesEntered` times in all."""
        wanted = command["timesEntered"]
        command["maxTimeMS"]  # required; who dispatches keeps to it
        async with self._entries:
            await self._entries.wait_for(lambda: self._entered >= wanted)
        return {"ok": 1.0}

    async def before(self, client: Sender, command: Mapping[str, Any]) -> None:
        """Hold the command up, cut the client's connection or raise the error, as configured; else do nothing."""
        data = self._data
        close, block, code = data.get("closeConnection") is True, data.get("blockConnection") is True, _code(data)
        if not (close or block or code is not None) or not self._meant(client, command):
            return
        if block:
            _block_ms(data)
        if not await self._enter():
            return
        if close:
            client.close()
            raise RouterError(50985, "Location50985", "Failing command due to 'failCommand' failpoint")
        if block:
            await asyncio.sleep(_block_ms(data) / 1000)
        if code is None:
            return
        if code in codes.WITH_DETAILS:
            name = codes.name_of(code)
            raise RouterError(40671, "Location40671", f"Missing required extra info for error code {name}")
        labels = data["errorLabels"] if isinstance(data.get("errorLabels"), list) else _labels(command, code)
        raise RouterError(code, codes.name_of(code), "Failing command via 'failCommand' failpoint", labels)

    async def after(self, client: Sender, command: Mapping[str, Any]) -> dict[str, Any]:
        """Fields to put into the reply of the command that ran: `writeConcernError` and labels, or nothing."""
        data = self._data
        name = _name(command)
        if "writeConcernError" not in data or name not in _WRITE_CONCERN or not self._meant(client, command):
            return {}
        if not await self._enter():
            return {}
        labels = data.get("errorLabels")
        return {
            "writeConcernError": data["writeConcernError"],
            **({"errorLabels": labels} if isinstance(labels, list) and labels else {}),
        }

    def _meant(self, client: Sender, command: Mapping[str, Any]) -> bool:
        data, name = self._data, _name(command)
        if not self.armed or name == "configureFailPoint":
            return False
        if "appName" in data and data["appName"] != client.app_name:
            return False
        if "namespace" in data and data["namespace"] != _namespace(command):
            return False
        if data.get("failAllCommands") is True:
            return True
        listed = data.get("failCommands")
        return isinstance(listed, list) and any(
            isinstance(one, str) and _ALIASES.get(one, one) == name for one in listed
        )

    async def _enter(self) -> bool:
        """Count down the mode; whether the fail point acts now. The one place that counts."""
        if self._mode == "times":
            self._left -= 1
            if self._left <= 0:
                self._mode, self.armed = "off", False
        elif self._mode == "skip" and self._left > 0:
            self._left -= 1
            return False
        elif self._mode == "activationProbability" and self._random.random() >= self._probability:
            return False
        async with self._entries:
            self._entered += 1
            self._entries.notify_all()
        return True


def _name(command: Mapping[str, Any]) -> str:
    name = next(iter(command), "")
    return _ALIASES.get(name, name)


def _namespace(command: Mapping[str, Any]) -> str:
    database, (name, value) = command.get("$db", ""), next(iter(command.items()))
    collection = command.get("collection") if name == "getMore" else value
    return f"{database}.{collection}" if isinstance(collection, str) else str(database)


def _code(data: Mapping[str, Any]) -> int | None:
    code = data.get("errorCode")
    return int(code) if isinstance(code, (int, float)) and not isinstance(code, bool) else None


def _block_ms(data: Mapping[str, Any]) -> float:
    milliseconds = data.get("blockTimeMS")
    if not isinstance(milliseconds, (int, float)):
        raise RouterError(72, "InvalidOptions", "must specify 'blockTimeMS' when 'blockConnection' is true")
    if milliseconds < 0:
        raise RouterError(72, "InvalidOptions", "'blockTimeMS' must be non-negative")
    return milliseconds


def _labels(command: Mapping[str, Any], code: int) -> Sequence[str]:
    """What a server adds by itself. Not to a getMore: it fails before the server knows what the cursor is of."""
    if code in codes.NOT_RESUMABLE:
        return ["NonResumableChangeStreamError"]
    pipeline = command.get("pipeline")
    first = pipeline[0] if isinstance(pipeline, list) and pipeline else None
    stream = isinstance(first, Mapping) and "$changeStream" in first
    return [RESUMABLE] if stream and code in codes.RESUMABLE else []


def _mode(command: Mapping[str, Any]) -> tuple[str, float]:
    """The mode and its number. Raises RouterError in a server's words."""
    if "mode" not in command:
        raise RouterError(20, "IllegalOperation", "When setting a failpoint, you must supply a 'mode'")
    mode = command["mode"]
    if isinstance(mode, str):
        if mode not in ("off", "alwaysOn"):
            raise RouterError(2, "BadValue", f"unknown mode: {mode}")
        return mode, 0
    if not isinstance(mode, Mapping):
        raise RouterError(14, "TypeMismatch", "'mode' must be a string or JSON object")
    name = next((one for one in ("times", "skip", "activationProbability") if one in mode), None)
    if name is None:
        raise RouterError(2, "BadValue", _MODES)
    value = mode[name]
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise RouterError(14, "TypeMismatch", f'Expected field "{name}" to have numeric type, but found {value!r}')
    if name == "activationProbability":
        if not 0 <= value <= 1:
            raise RouterError(2, "BadValue", f"{name} must be between 0.0 and 1.0; found {value}")
    elif value != int(value):
        raise RouterError(
            2,
            "BadValue",
            f'Expected field "{name}" to have a value exactly representable as a 64-bit integer, but found'
            f" {name}: {value}",
        )
    elif value < 0:
        raise RouterError(2, "BadValue", f"'{name}' option to 'mode' must be positive")
    return name, value
