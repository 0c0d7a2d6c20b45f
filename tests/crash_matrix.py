"""Every fault, its harness killed with -9 while it injects, holds or heals it; healed by the guardian, by `heal`, or by
the next command. What is left is looked for with pymongo, the proxy's word and the kernel alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure, PyMongoError

from aftermath import Place, healed_after_a_kill, kept_cluster
from clusters.wire.proxy.client import ProxyControl
from faults.cgroup import NoCgroup, place_for
from harness import exits

NETWORK = ("bandwidth", "blackhole", "cut", "half-open", "isolate-primary", "latency", "partition", "refuse", "swallow")
IN_SERVER = (
    "fail-command commands=find errorCode=8",
    'fail-point point=failCommand data={"failCommands":["find"],"errorCode":{"$numberInt":"8"}} proof=on',
    "hang-after-command",
    "hang-in-yield proof=on",
    "lock-wait",
    "no-tickets",
    "pause-replication how=rsSyncApplyStop",
    "pause-replication how=stopReplProducer",
    "pause-replication how=fsyncLock",
    "slow-apply how=sleepBeforeCommit",
    "slow-apply how=secondaryDelay",
    "write-conflict ids=1",
)
ON_MEMBERS = (
    "freeze",
    "stutter share=0.9",
    "cpu-limit",
    "kill",
    "terminate",
    "restart",
    "step-down",
    "move-tags",
    "remove-member",
    "hide-member",
)
FORMS = (*NETWORK, *IN_SERVER, *ON_MEMBERS)
ON_CONTAINERS = {"isolate", "memory-limit", "packet-loss"}
"""Those that no process can suffer; their harness is killed in test_compose_crash."""

ANY = "at any moment"
POINTS = {
    "inject": ("written down, nothing done", ANY, "done, not proven"),
    "hold": ("held",),
    "heal": (ANY, "healed, not written down"),
}
"""Where the harness dies. Each cell has one of its row, drawn; another seed draws others."""
HEALERS = ("guardian", "heal", "next command")
SEED = os.environ.get("MONGOFAULT_CRASH_SEED", "0")
MANY_TICKETS = 128
DEFAULTS = {"transactionLifetimeLimitSeconds": 60, "internalQueryExecYieldIterations": 1000}
"""What a server has from the start (6.0.5)."""
WHOLE = 40.0
"""Seconds until all is as it was; one to five on a machine of one's own."""

SCRIPT = """
import asyncio, os, signal, sys, threading
import faults
from clusters import kept, local
from clusters.cluster import of_set, primary_of
from faults.base import Injection, Site
from faults.options import parse
from harness import stage

form, moment, point, delay, both = ARGUMENTS

def die():
    # In one breath: an owner that saw its guardian end would start another one.
    if both:
        os.kill(guardian.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

def dying(act):
    async def acting():
        if point == "at any moment":
            threading.Timer(delay, die).start()
        if point != "written down, nothing done":
            await act()
        if point != "at any moment":
            die()
    return acting

async def main():
    global guardian
    held = kept.hold("mine")
    cluster = kept.load("mine")
    await stage.recovered(cluster)
    ledger, guardian = local.open_ledger("breaks-mine", on=held)
    name, *options = form.split()
    kind = faults.by_name(name)
    target = primary = await primary_of(cluster, "rs0")
    if kind.aim != "primary":
        target = next(one for one in of_set(cluster, "rs0") if one is not primary)
    fault = kind(Site(cluster, target, "injured.things"), parse(name, kind.options, options))
    if (obstacle := await fault.available()) is not None:
        sys.exit(obstacle)
    injection = Injection(fault, ledger, guarded=guardian.alive)
    if moment == "inject":
        fault.inject = dying(fault.inject)
    await injection.inject()
    if moment == "hold":
        await asyncio.sleep(delay)
        die()
    if moment == "heal":
        fault.heal = dying(fault.heal)
        await injection.heal()
    await asyncio.sleep(60)

asyncio.run(main())
"""


def cells(forms: Iterable[str], quick: Collection[tuple[str, str, str]] = ()) -> list[ParameterSet]:
    """All of some faults, as parameters `form, moment, healer`.

    Of those that are not `quick` the long round has one for each fault, now this moment and healer, now that; the
    others are for the round of the whole matrix (`make matrix`).
    """

    def parameters(form: str, moment: str, healer: str) -> ParameterSet:
        marks = [] if (form, moment, healer) in quick else [pytest.mark.slow]
        turn, number = divmod(FORMS.index(form), len(HEALERS))
        if marks and (HEALERS[number], [*POINTS][turn % len(POINTS)]) != (healer, moment):
            marks.append(pytest.mark.matrix)
        return pytest.param(form, moment, healer, marks=marks, id=f"{form.partition(' data')[0]}-{moment}-{healer}")

    return [parameters(form, moment, healer) for form in forms for moment in POINTS for healer in HEALERS]


@dataclass(frozen=True)
class Site:
    """A replica set that outlives whoever breaks it, and what it was like at first."""

    place: Place
    hosts: dict[str, str]
    proxy: str
    members: list[dict[str, Any]]
    processes: int
    cgroups: set[str]

    def amiss(self) -> list[str]:
        """What is not as it was: sentences."""
        alive = self.place.processes()
        found = [f"process {pid} in state {state}" for pid, state in alive.items() if state == "T"]
        found += [f"control group {one}" for one in control_groups() - self.cgroups]
        found += [f"rule {one}" for one in asyncio.run(rules(self.proxy))]
        for name, host in self.hosts.items():
            with client(host) as server:
                try:
                    found += [f"{name}: {one}" for one in self._amiss_at(server)]
                except PyMongoError as error:
                    found.append(f"{name} does not answer: {type(error).__name__}")
        if not found:
            found += self._amiss_together()
        if not found and len(alive) != self.processes:
            found.append(f"{len(alive)} processes where {self.processes} were")
        return found

    def _amiss_at(self, server: MongoClient[dict[str, Any]]) -> list[str]:
        hello = server.admin.command("hello")
        if not (hello.get("secondary") or hello.get("isWritablePrimary")):
            return ["in no set"]
        parameters = server.admin.command({"getParameter": "*"})
        on = [name for name, value in parameters.items() if name.startswith("failpoint.") and value["mode"]]
        assert "failpoint.failCommand" in parameters
        if server.admin.command("currentOp").get("fsyncLock"):
            on.append("fsyncLock")
        tickets = server.admin.command("serverStatus")["wiredTiger"]["concurrentTransactions"]["write"]
        if tickets["totalTickets"] < MANY_TICKETS:
            on.append(f"{tickets['totalTickets']} write tickets")
        on += [f"{name} is {parameters[name]}" for name, value in DEFAULTS.items() if parameters[name] != value]
        operations = server.admin.command({"currentOp": 1, "$all": True})["inprog"]
        on += ["a transaction" for one in operations if "transaction" in one]
        on += ["one that sleeps" for one in operations if "sleep" in one.get("command", {})]
        if server.admin.command("replSetGetConfig")["config"]["members"] != self.members:
            on.append("another configuration")
        return on

    def _amiss_together(self) -> list[str]:
        """The member of the highest priority can lead, refused while the time of a step-down lasts; and every member
        acknowledges a write."""
        with client(self.hosts["rs0-0"]) as server:
            try:
                server.admin.command("replSetStepUp")
                everyone = WriteConcern(w=len(self.hosts), wtimeout=5000)
                server.injured.get_collection("things", write_concern=everyone).insert_one({})
            except (OperationFailure, PyMongoError) as error:
                return [f"no write that all acknowledge: {error}"]
        return []


@contextmanager
def site(path: Path) -> Iterator[Site]:
    options = (
        *("--replica-set", "--members", "3", "--proxied", "--tag", "rs0-1:zone=a", "--priority", "rs0-0:2"),
        *("--heartbeat-ms", "200", "--election-timeout-ms", "2000"),
        # Longer than a heal takes: a server that was told to end must not do so after it. 15 s by default.
        *("--parameter", "shutdownTimeoutMillisForSignaledShutdown=3000"),
    )
    with kept_cluster(path, "mine", *options) as place:
        record = json.loads((place.root / "state/ledgers/mine/cluster.json").read_text())
        with client(record["hosts"]["rs0-0"]) as server:
            members = server.admin.command("replSetGetConfig")["config"]["members"]
        yield Site(
            place,
            record["hosts"],
            record["listens"]["proxy"],
            members,
            len(place.processes()),
            control_groups(),
        )


def client(host: str) -> MongoClient[dict[str, Any]]:
    return MongoClient(f"mongodb://{host}/", directConnection=True, socketTimeoutMS=8000, serverSelectionTimeoutMS=1000)


async def rules(control: str) -> list[dict[str, Any]]:
    """In force at the proxy, by its own word."""
    proxy = await ProxyControl.open(control)
    try:
        return list((await proxy.status())["rules"])
    finally:
        proxy.close()


def control_groups() -> set[str]:
    return {str(one) for one in Path("/sys/fs/cgroup").glob("**/mongofault-*") if one.is_dir()}


def no_control_groups() -> bool:
    try:
        place_for(os.getpid())
    except NoCgroup:
        return True
    return False


def cell(site: Site, form: str, moment: str, healer: str) -> None:
    """One cell: broken, killed, healed, and nothing left."""
    if form.startswith("cpu-limit") and no_control_groups():
        pytest.skip("no control groups can be made here")
    draw = random.Random(f"{form} {moment} {healer} {SEED}")
    point = draw.choice(POINTS[moment])
    delay = 10 ** draw.uniform(-3, 0)
    # A death some while after the heal finds nothing open any more.
    open_for_certain = moment != "heal" or point != ANY
    arguments = (form, moment, point, delay, healer != "guardian")
    process = site.place.python(SCRIPT.replace("ARGUMENTS", repr(arguments)))
    out, err = process.communicate(timeout=90)
    assert process.returncode == -signal.SIGKILL, f"{out}{err}"
    if healer == "guardian":
        healed_after_a_kill(site.place, "mine")
    elif healer == "heal":
        done = site.place.run("heal")
        assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
        assert "undone: breaks-mine" in done.stdout or not open_for_certain
    else:
        done = site.place.run("fault", "freeze", "--on", "any", "--cluster", "nowhere")
        assert done.returncode == exits.REFUSED, done.stdout + done.stderr
        assert "left behind by a killed run and undone: breaks-mine" in done.stderr or not open_for_certain
    end = time.monotonic() + WHOLE
    while (left := site.amiss()) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == [], f"after a death {point!r} ({delay * 1000:.1f} ms)"
    assert "nothing to heal" in site.place.run("heal").stdout
