"""Clusters of containers as the engine itself shows them: asked through the plain SDK, by nothing of the harness."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker

from aftermath import CLEAN_DEADLINE, Place
from harness import exits

Filters = dict[str, str | list[str] | bool]
REMOVALS = 20
"""A cluster has eight containers, and a network, volumes and processes."""
NAMED_DEADLINE = 60.0
LABEL = "mongofault.cluster"


@contextmanager
def asked() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    try:
        yield client
    finally:
        client.close()


def things(name: str) -> list[str]:
    """All that there is of the cluster of that name: containers, networks, volumes."""
    wanted: Filters = {"label": f"{LABEL}={name}"}
    with asked() as engine:
        found = [
            *(
                f"container {one.name} {one.status}"
                for one in engine.containers.list(all=True, filters=wanted, ignore_removed=True)
            ),
            *(f"network {one.name}" for one in engine.networks.list(filters=wanted)),
            *(f"volume {one.name}" for one in engine.volumes.list(filters=wanted)),
        ]
    return sorted(found)


def member(name: str, which: str) -> dict[str, Any]:
    """The container of a member of that cluster, as the engine has it."""
    with asked() as engine:
        wanted: Filters = {"label": [f"{LABEL}={name}", f"mongofault.member={which}"]}
        (found,) = engine.containers.list(all=True, filters=wanted)
        return dict(found.attrs)


def endpoints(container: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    """By network: the address and the names that the container has there."""
    found = container["NetworkSettings"]["Networks"]
    return {name: (one["IPAddress"], sorted(one["Aliases"] or ())) for name, one in found.items()}


def patience(image: str) -> float:
    """Seconds within which all of a killed run is gone: CLEAN_DEADLINE, and on a busy machine so many times as long as
    the engine takes there and then to remove one container."""
    with asked() as engine:
        one = engine.containers.run(image, entrypoint=["/bin/busybox", "sleep", "600"], detach=True)
        began = time.monotonic()
        one.remove(force=True, v=True)
        return max(CLEAN_DEADLINE, REMOVALS * (time.monotonic() - began))


def left_after(place: Place, name: str, deadline: float = CLEAN_DEADLINE) -> list[str]:
    """What is still there of a cluster of that name, and of the place, after `deadline` seconds."""
    end = time.monotonic() + deadline
    while (left := [*things(name), *place.left()]) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def run_name(place: Place) -> str:
    """Of the cluster that a run in this place brings up, as soon as it is written down."""
    end = time.monotonic() + NAMED_DEADLINE
    while not (found := list(place.root.glob("state/ledgers/[!.]*"))):
        assert time.monotonic() < end, f"no ledger within {NAMED_DEADLINE:g} s"
        time.sleep(0.01)
    (ledger,) = found
    return ledger.name


def up(place: Place, name: str, *options: str) -> dict[str, Any]:
    """A kept cluster of containers; what `up --json` says of it."""
    done = place.run("up", "--provider", "compose", "--name", name, "--json", *options)
    assert done.returncode == exits.AS_EXPECTED, done.stderr
    return dict(json.loads(done.stdout))


def in_group(container: dict[str, Any]) -> bool:
    """Whether the kernel has frozen the container, by the file of either version of control groups."""
    identity = container["Id"]
    first = Path(f"/sys/fs/cgroup/freezer/docker/{identity}/freezer.state")
    if first.exists():
        return first.read_text().strip() == "FROZEN"
    lines = Path(f"/proc/{container['State']['Pid']}/cgroup").read_text().splitlines()
    (path,) = [line.partition("::")[2] for line in lines if line.startswith("0::")]
    return "frozen 1" in (Path("/sys/fs/cgroup") / path.lstrip("/") / "cgroup.events").read_text()


def process_state(container: dict[str, Any]) -> str:
    """The letter that the kernel has for the container's first process."""
    return Path(f"/proc/{container['State']['Pid']}/stat").read_text().rpartition(")")[2].split()[0]


def memory_limit(container: dict[str, Any]) -> int | None:
    """Bytes that the kernel lets it have, None where it has no limit."""
    file = Path(f"/sys/fs/cgroup/memory/docker/{container['Id']}/memory.limit_in_bytes")
    if not file.exists():
        lines = Path(f"/proc/{container['State']['Pid']}/cgroup").read_text().splitlines()
        (path,) = [line.partition("::")[2] for line in lines if line.startswith("0::")]
        file = Path("/sys/fs/cgroup") / path.lstrip("/") / "memory.max"
    found = file.read_text().strip()
    return None if found == "max" or int(found) > 1 << 60 else int(found)


def shaped(container: dict[str, Any]) -> list[str]:
    """Token buckets at either end of its line."""
    pid = container["State"]["Pid"]
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    (link,) = json.loads(_output(*inside, "ip", "-json", "link", "show", "type", "veth"))
    found = json.loads(_output(*inside, "tc", "-json", "qdisc", "show", "dev", link["ifname"]))
    for one in json.loads(_output("ip", "-json", "link", "show")):
        if (one["ifindex"], one.get("link_index")) == (link["link_index"], link["ifindex"]):
            found += json.loads(_output("tc", "-json", "qdisc", "show", "dev", one["ifname"]))
    return [one["kind"] for one in found if one["kind"] == "tbf"]


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
