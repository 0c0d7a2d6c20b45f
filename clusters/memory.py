"""How much memory a cluster will need and how much there is, the control group's limit included."""

from __future__ import annotations

from pathlib import Path

from clusters.errors import Refused
from clusters.topology import Topology

OVERHEAD_MIB = 150
"""MiB a member takes beside its cache (measured on 6.0.5: 144 to 159 MiB resident, idle)."""


def available_mib() -> int:
    """MiB that can be had now: the machine's, or what the control group leaves, whichever is less."""
    return min([_meminfo_available(), *_control_group_rooms()])


def needed_mib(topology: Topology) -> int:
    """MiB for all members: cache and overhead."""
    each = topology.settings.cache_gb * 1024 + OVERHEAD_MIB
    return round(each * sum(1 for _ in topology.members()))


def check(topology: Topology) -> None:
    """Raises Refused when the cluster does not fit into memory."""
    needed, room = needed_mib(topology), available_mib()
    if needed > room:
        count = sum(1 for _ in topology.members())
        raise Refused(
            f"{count} members need {needed} MiB ({topology.settings.cache_gb:g} GiB cache + {OVERHEAD_MIB} MiB each), "
            f"{room} MiB are available: fewer --members or --shards, or a smaller --cache-gb"
        )


def _meminfo_available() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    raise Refused("/proc/meminfo names no MemAvailable; a Linux kernel of 3.14 or later is needed")


def _control_group_rooms() -> list[int]:
    """MiB left below each control group limit that holds for this process (versions 1 and 2)."""
    rooms = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, limit_name, usage_name = Path("/sys/fs/cgroup"), "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit_name, usage_name = (
                Path("/sys/fs/cgroup/memory"),
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
        else:
            continue
        group = base / path.lstrip("/")
        # Inside a container the path named is that of the host; the group itself is mounted at the base.
        for directory in [group, *group.parents] if group.is_dir() else [base]:
            try:
                limit = (directory / limit_name).read_text().strip()
                usage = int((directory / usage_name).read_text())
                cache = _reclaimable(directory)
            except (OSError, ValueError):
                continue
            if limit != "max" and int(limit) < 1 << 60:
                rooms.append(max(0, int(limit) - usage + cache) >> 20)
    return rooms


def _reclaimable(directory: Path) -> int:
    """Bytes of page cache that the kernel gives back under pressure."""
    for line in (directory / "memory.stat").read_text().splitlines():
        if line.startswith(("inactive_file ", "total_inactive_file ")):
            return int(line.split()[1])
    return 0
