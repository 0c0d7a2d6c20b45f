"""Commands to a server on behalf of an undo record: one host, short timeouts, through a plain pymongo client.

pymongo is imported only when a command has to be sent: the guardian must start in a blink and hardly ever needs it.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clusters.guard.errors import UndoFailed
from clusters.guard.logins import options_for
from clusters.wire import addresses

ATTEMPT = 3.0
"""Seconds one command may take. A frozen member accepts connections and never answers."""
HELLO = 1.0
"""Seconds in which a member must say whether it is the primary; one that is stalled is none."""
PAUSE = 0.1
"""Seconds between two attempts at a reconfiguration: nothing announces the new primary."""

COMMIT_MS = 300
"""Milliseconds to wait until a majority has a new configuration. The primary installs it before it waits, and spreads
it with its next heartbeats, by default 2 s apart: to wait for those would only keep the guardian here."""

NOT_SECONDARY = 95
"""replSetFreeze asked of a primary, or of one that stands for election this moment (measured on 6.0.5)."""

NOT_FOUND = 59
"""CommandNotFound: configureFailPoint on a server started without test commands."""


class Refused(Exception):
    """Nobody listens there: whatever was set in that process's memory is gone with it."""


class CommandError(Exception):
    """The server said no, or said nothing. `code` is the server's, 0 for anything else."""

    def __init__(self, message: str, code: int = 0) -> None:
        self.code = code
        super().__init__(message)


def run(host: str, database: str, command: Mapping[str, Any], deadline: float) -> dict[str, Any]:
    """Run a command on `host` (`address:port`), directly; `deadline` in seconds. Raises Refused, CommandError."""
    seconds = max(0.05, min(deadline, ATTEMPT))
    _knock(host, seconds)
    from pymongo import MongoClient
    from pymongo.errors import OperationFailure, PyMongoError

    milliseconds = int(seconds * 1000)
    client: MongoClient[dict[str, Any]] = MongoClient(
        addresses.of(host),
        directConnection=True,
        serverSelectionTimeoutMS=milliseconds,
        connectTimeoutMS=milliseconds,
        socketTimeoutMS=milliseconds,
        appname="mongofault guardian",
        **options_for(host),
    )
    name = next(iter(command))
    try:
        return client.get_database(database).command(dict(command))
    except OperationFailure as error:
        message = str((error.details or {}).get("errmsg") or error)
        raise CommandError(f"{name} on {host} failed: {error.code} {message}", error.code or 0) from None
    except PyMongoError as error:
        raise CommandError(f"{name} on {host}: no answer within {seconds:g} s ({type(error).__name__})") from None
    finally:
        client.close()


def fail_point_off(host: str, name: str, deadline: float) -> None:
    """Switch a fail point off. A server that is gone has none."""
    try:
        run(host, "admin", {"configureFailPoint": name, "mode": "off"}, deadline)
    except Refused:
        return
    except CommandError as error:
        if error.code != NOT_FOUND:
            raise UndoFailed(str(error)) from None


def fsync_unlock(host: str, deadline: float) -> None:
    """Let go of a server's fsyncLock. One that is gone, or not locked, has none.

    fsyncUnlock waits for an fsync that is under way, so a lock just asked for cannot come after its undoing.
    """
    try:
        run(host, "admin", {"fsyncUnlock": 1}, deadline)
    except Refused:
        return
    except CommandError as error:
        # "Not locked" has no code to know it by (measured on 6.0.5).
        try:
            locked = run(host, "admin", {"currentOp": 1, "opid": -1}, deadline).get("fsyncLock")
        except Refused:
            return
        except CommandError:
            locked = True
        if locked:
            raise UndoFailed(str(error)) from None


def run_extended(
    host: str, database: str, command: Mapping[str, Any], deadline: float, *, in_memory: bool = False
) -> None:
    """Run a command given as extended JSON (v2, relaxed or canonical). `in_memory`: a server that is gone is none."""
    from bson import json_util

    try:
        run(host, database, json_util.loads(json.dumps(command)), deadline)
    except Refused as error:
        if not in_memory:
            raise UndoFailed(str(error)) from None
    except CommandError as error:
        raise UndoFailed(str(error)) from None


def remove_rule(control: str, name: str, deadline: float) -> None:
    """Take a rule of a proxy back. One that is gone took its rules along."""
    try:
        run(control, "admin", {"proxyRemoveRule": name}, deadline)
    except Refused:
        return
    except CommandError as error:
        raise UndoFailed(str(error)) from None


def end_step_down(host: str, deadline: float) -> None:
    """End the time in which a server that stepped down does not stand for election. One that is gone, or is the
    primary again, has none."""
    try:
        run(host, "admin", {"replSetFreeze": 0}, deadline)
    except Refused:
        return
    except CommandError as error:
        if error.code != NOT_SECONDARY:
            raise UndoFailed(str(error)) from None


def reconfigure(hosts: Sequence[str], set_name: str, change: Callable[[dict[str, Any]], bool], deadline: float) -> None:
    """Let `change` alter the set's configuration and, if it says that it did, install it through whoever is primary;
    until there is nothing left for it to do."""
    end = time.monotonic() + deadline
    while True:
        try:
            primary = _primary(hosts, set_name, end)
            config = run(primary, "admin", {"replSetGetConfig": 1}, end - time.monotonic())["config"]
            if not change(config):
                return
            config["version"] += 1
            run(primary, "admin", {"replSetReconfig": config, "maxTimeMS": COMMIT_MS}, end - time.monotonic())
            reason = f"{set_name}: the configuration keeps changing"
        except (Refused, CommandError) as error:
            # Another primary, or the configuration before this one not yet committed (code 308): both pass.
            reason = str(error)
        if time.monotonic() + PAUSE > end:
            raise UndoFailed(reason)
        time.sleep(PAUSE)


def put_back(config: dict[str, Any], members: Mapping[str, Mapping[str, Any]]) -> bool:
    """Change `config` towards what `members` says of each host; False when it says so already. Members that are no
    longer in the set are passed over.

    The vote of at most one member changes: a reconfiguration that is not forced may add or remove one voter only
    (manual: replSetReconfig, since 4.4).
    """
    changed = voter_changed = False
    for member in config["members"]:
        wanted = dict(members.get(member["host"], {}))
        differing = {name: value for name, value in wanted.items() if member.get(name) != value}
        if not differing:
            continue
        if "votes" in differing:
            if voter_changed:
                changed = True
                continue
            voter_changed = True
        member.update(differing)
        changed = True
    return changed


def add(config: dict[str, Any], member: Mapping[str, Any]) -> bool:
    """Put a member into `config`, in the order of their numbers; False when its host is in there already."""
    if any(one["host"] == member["host"] for one in config["members"]):
        return False
    config["members"] = sorted([*config["members"], dict(member)], key=lambda one: int(one["_id"]))
    return True


def _primary(hosts: Sequence[str], set_name: str, end: float) -> str:
    reasons = []
    for host in hosts:
        try:
            hello = run(host, "admin", {"hello": 1}, min(HELLO, end - time.monotonic()))
        except (Refused, CommandError) as error:
            reasons.append(str(error))
            continue
        if hello.get("setName") != set_name:
            reasons.append(f"{host} belongs to set {hello.get('setName')}")
        elif hello.get("isWritablePrimary"):
            return host
        else:
            reasons.append(f"{host} is no primary")
    raise CommandError(f"{set_name}: no primary found: {'; '.join(reasons)}")


def _knock(host: str, seconds: float) -> None:
    """Tell a port where nobody listens at once; the driver would go on trying for the whole of its timeout."""
    address, _, port = addresses.of(host).rpartition(":")
    try:
        socket.create_connection((address.strip("[]"), int(port)), timeout=seconds).close()
    except ConnectionRefusedError:
        raise Refused(f"{host}: nobody listens there") from None
    except OSError as error:
        raise CommandError(f"{host}: cannot connect ({error})") from None
