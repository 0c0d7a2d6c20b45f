"""Makes a cluster of the running servers of a Compose project, from outside: for images that hold no mongosh.

    python compose/initiate.py PROJECT [--keyfile FILE [--password-file FILE [--user NAME]]]

Needs Python 3.11 with pymongo, and the docker command. What is done already is left as it is: it can run again at any
time. What each set is made of stands in a label of its first member.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

DEADLINE: Final = 120.0
"""Seconds for all of it."""
ALREADY_INITIALIZED: Final = 23
USER_EXISTS: Final = 51003


class Servers:
    """The running servers of a project, each by its name and by what its set calls it."""

    def __init__(self, project: str, keyfile: Path | None) -> None:
        self.sets: list[dict[str, Any]] = []
        self.published: dict[str, str] = {}
        self._key = None if keyfile is None else "".join(keyfile.read_text().split())
        for container in _containers(project):
            labels = container["Config"]["Labels"]
            name = labels["mongofault.member"]
            if "mongofault.set" in labels:
                self.sets.append(json.loads(labels["mongofault.set"]))
            for binding in container["NetworkSettings"]["Ports"].get("27017/tcp") or []:
                self.published[name] = f"{binding['HostIp']}:{binding['HostPort']}"

    @property
    def routers(self) -> list[str]:
        return sorted(name for name in self.published if name.startswith("router"))

    def command(self, name: str, command: dict[str, Any]) -> dict[str, Any]:
        """Run on the database admin of one server, as a member of the cluster where there is a key file."""
        if name not in self.published:
            raise LookupError(f"{name} does not run")
        # Any member may do anything, and is there before the first user is.
        as_member: dict[str, Any] = (
            {"username": "__system", "password": self._key, "authSource": "local"} if self._key else {}
        )
        with MongoClient[dict[str, Any]](
            self.published[name], directConnection=True, serverSelectionTimeoutMS=2000, **as_member
        ) as client:
            return client.admin.command(command)


def _containers(project: str) -> list[dict[str, Any]]:
    mine = ["--filter", f"label=com.docker.compose.project={project}", "--filter", "label=mongofault.member"]
    ids = subprocess.run(["docker", "ps", "--quiet", *mine], capture_output=True, text=True, check=True).stdout.split()
    if not ids:
        sys.exit(f"no server of a project called {project} runs here; expected the name given to compose -p")
    told = subprocess.run(["docker", "inspect", *ids], capture_output=True, text=True, check=True).stdout
    found: list[dict[str, Any]] = json.loads(told)
    return found


def until(what: str, attempt: Callable[[], bool], end: float) -> None:
    """Try until it is so, and say it; ends the program where it is not so in time."""
    last: object = "nothing was tried"
    while time.monotonic() < end:
        try:
            if attempt():
                print(what)
                return
            last = "not yet"
        except (PyMongoError, LookupError) as error:
            last = error
        time.sleep(0.2)
    sys.exit(f"NOT {what} within {DEADLINE:g} s: {last}")


class Cluster:
    """What is said to the servers to make a cluster of them; `end` is when it is given up."""

    def __init__(self, servers: Servers, end: float) -> None:
        self.servers = servers
        self.end = end

    def initiate(self, one: dict[str, Any]) -> None:
        initiation = {"replSetInitiate": one}
        what = f"{one['_id']} initiated"
        until(what, lambda: self._once(first(one), initiation, ALREADY_INITIALIZED), self.end)

    def primary(self, one: dict[str, Any]) -> str:
        """The name of a set's primary, which is waited for."""
        until(f"{one['_id']} has a primary", lambda: self._primary(one) is not None, self.end)
        return self._primary(one) or first(one)

    def add_user(self, primary: str, user: str, password: str) -> None:
        addition = {"createUser": user, "pwd": password, "roles": ["root"], "writeConcern": {"w": "majority"}}
        until(f"user {user} on {primary}", lambda: self._once(primary, addition, USER_EXISTS), self.end)

    def add_shard(self, one: dict[str, Any]) -> None:
        """Of the same name and members it may be added again."""
        addition = {"addShard": f"{one['_id']}/" + ",".join(member["host"] for member in one["members"])}
        router = self.servers.routers[0]
        until(f"{one['_id']} is a shard", lambda: bool(self.servers.command(router, addition)), self.end)

    def _primary(self, one: dict[str, Any]) -> str | None:
        if not (host := self.servers.command(first(one), {"hello": 1}).get("primary")):
            # A new set would wait for an election timeout first.
            self.servers.command(first(one), {"replSetStepUp": 1})
            return None
        name = f"{one['_id']}-{[member['host'] for member in one['members']].index(host)}"
        return name if self.servers.command(name, {"hello": 1})["isWritablePrimary"] else None

    def _once(self, name: str, command: dict[str, Any], code: int) -> bool:
        """Run it; an error with this code says that it was done before."""
        try:
            self.servers.command(name, command)
        except OperationFailure as error:
            if error.code != code:
                raise
        return True


def first(one: dict[str, Any]) -> str:
    """The first member of a set: members are called SET-0, SET-1 and so on."""
    return f"{one['_id']}-0"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("project", help="the name given to compose -p")
    parser.add_argument("--keyfile", type=Path, help="of a cluster that was started with an -auth.yml")
    parser.add_argument("--password-file", type=Path, help="adds a user with the role root, where there is a key file")
    parser.add_argument("--user", default="admin")
    given = parser.parse_args()
    if given.password_file and not given.keyfile:
        sys.exit("--password-file: of no use without --keyfile; expected both, for a cluster started with an -auth.yml")
    try:
        servers = Servers(given.project, given.keyfile)
        password = given.password_file and given.password_file.read_text().strip()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"cannot be read: {getattr(error, 'stderr', None) or error}")
    cluster = Cluster(servers, time.monotonic() + DEADLINE)
    for one in servers.sets:
        cluster.initiate(one)
    for one in servers.sets:
        primary = cluster.primary(one)
        if password:
            # Those of a sharded cluster are the config servers'; a shard that is spoken to directly knows its own.
            cluster.add_user(primary, given.user, password)
    for one in servers.sets if servers.routers else []:
        if not one.get("configsvr"):
            cluster.add_shard(one)


if __name__ == "__main__":
    main()
