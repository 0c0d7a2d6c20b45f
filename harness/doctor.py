"""`doctor`: what this machine has and lacks for clusters, and what to do for each thing missing. Reads only."""

from __future__ import annotations

import os
import platform
import resource
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clusters import memory, ports
from clusters.binaries import advice, find_mongod, find_mongos
from clusters.compose import command as compose
from clusters.compose import engine
from clusters.errors import Refused
from clusters.guard import state_root, survey
from clusters.topology import sharded_cluster

OPEN_FILES_WANTED = 4096
"""A member of the demo's cluster uses about 150 descriptors; 32 streams and a router add about 1,000."""

Level = Literal["ok", "note", "missing"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing looked at. `missing` keeps the demo from running, `note` narrows what can be done."""

    subject: str
    level: Level
    found: str
    advice: str = ""


def examine() -> list[Diagnosis]:
    """Everything, in the order in which it would be missed."""
    checks: list[Callable[[], Diagnosis]] = [
        _platform,
        _mongod,
        _mongos,
        _memory,
        _files,
        _ports,
        _temporary,
        _state,
        _left_behind,
        _docker,
        _compose,
    ]
    return [check() for check in checks]


def _platform() -> Diagnosis:
    found = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    if platform.system() != "Linux":
        return Diagnosis("platform", "missing", found, "local processes need Linux (pidfd, /proc): use a Linux machine")
    if not hasattr(os, "pidfd_open"):
        return Diagnosis("platform", "missing", found, "a kernel of 5.3 or later is needed (pidfd)")
    return Diagnosis("platform", "ok", found)


def _mongod() -> Diagnosis:
    try:
        mongod = find_mongod()
    except Refused as error:
        return Diagnosis("mongod", "missing", str(error), advice())
    return Diagnosis("mongod", "ok", f"{mongod.version} from {mongod.source}: {mongod.path}, runs")


def _mongos() -> Diagnosis:
    try:
        mongos = find_mongos()
    except Refused as error:
        return Diagnosis("mongos", "missing", str(error), "remove it from the path, or repair it")
    if mongos is None:
        return Diagnosis(
            "mongos",
            "note",
            "none; the stand-in router is used and every result says so",
            "for a real router put a mongos of the same version beside mongod in MONGODB_BINARIES",
        )
    return Diagnosis("mongos", "ok", f"{mongos.version} from {mongos.source}: {mongos.path}")


def _memory() -> Diagnosis:
    needed, room = memory.needed_mib(sharded_cluster()), memory.available_mib()
    found = f"{room} MiB available, {needed} MiB for a cluster of 2 x 3 members"
    if room < needed:
        return Diagnosis(
            "memory", "missing", found, "end other programs, or use --members 1 --cache-gb 0.25 and fewer shards"
        )
    return Diagnosis("memory", "ok", found)


def _files() -> Diagnosis:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{soft} open files allowed (at most {hard})"
    if soft < OPEN_FILES_WANTED:
        return Diagnosis("file limit", "note", found, f"ulimit -n {OPEN_FILES_WANTED} before large runs")
    return Diagnosis("file limit", "ok", found)


def _ports() -> Diagnosis:
    try:
        ports.give_back(ports.choose(50))
    except Refused as error:
        return Diagnosis("ports", "missing", str(error), "end servers that listen on 127.0.0.1")
    return Diagnosis("ports", "ok", f"free ones between {ports.LOWEST} and {ports.HIGHEST} on 127.0.0.1")


def _temporary() -> Diagnosis:
    import tempfile

    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free >> 20
    found = f"{directory}: {free} MiB free"
    if free < 1024:
        return Diagnosis("data", "missing", found, "free 1 GiB there, or point TMPDIR at a roomier place")
    return Diagnosis("data", "ok", found)


def _state() -> Diagnosis:
    root = state_root()
    existing = next(parent for parent in [root, *root.parents] if parent.exists())
    if not os.access(existing, os.W_OK):
        return Diagnosis(
            "state", "missing", f"{root} cannot be written", "set MONGOFAULT_STATE to a directory of yours"
        )
    return Diagnosis("state", "ok", str(root))


def _left_behind() -> Diagnosis:
    found = survey()
    if found.broken:
        return Diagnosis("left behind", "note", str(found.broken[0]), "look at that file; nothing was undone from it")
    if found.abandoned:
        named = ", ".join(ledger.name for ledger in found.abandoned)
        return Diagnosis("left behind", "note", f"by runs that ended badly: {named}", "mongofault heal")
    return Diagnosis("left behind", "ok", "nothing")


def _docker() -> Diagnosis:
    try:
        version = engine.version()
    except Refused as error:
        return Diagnosis("docker", "note", str(error), "local clusters do without")
    return Diagnosis("docker", "ok", f"engine {version}" + (", in a container" if _in_container() else ""))


def _compose() -> Diagnosis:
    try:
        found = " ".join(compose.command())
    except Refused as error:
        return Diagnosis("compose", "note", str(error), "local clusters do without")
    return Diagnosis("compose", "ok", found)


def _in_container() -> bool:
    return Path("/.dockerenv").exists()
