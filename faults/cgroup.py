"""A control group of ours for one process: where the kernel lets it be made, and what holds its CPU time back there.

Both versions (cgroups(7)). The limit is one of time in each period; what that does to whom, the fault knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clusters.guard import RemoveCgroup
from clusters.guard.cgroups import PREFIX, PROCESSES

PERIOD_US = 100_000
"""The kernel's own default."""
MOUNTS = Path("/proc/self/mountinfo")


class NoCgroup(Exception):
    """There is no place for a group of ours; says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Below `parent` a group may be made; `present` is the one that the process is in."""

    version: Literal[1, 2]
    parent: Path
    present: Path


class CpuGroup:
    """A group below a place. `token` makes its name one that nobody else has."""

    def __init__(self, place: Place, token: str) -> None:
        self._place = place
        self.path = place.parent / f"{PREFIX}{token}"

    def make(self, share: float) -> None:
        """Make it with so much of one CPU. Raises OSError."""
        self.path.mkdir()
        quota = str(round(share * PERIOD_US))
        if self._place.version == 2:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(quota)

    def take(self, pid: int) -> None:
        """Move a process into it, with all its threads. Raises OSError."""
        (self.path / PROCESSES).write_text(str(pid))

    def holds(self, pid: int) -> bool:
        """Whether the process is in it, as the kernel says."""
        try:
            return str(pid) in (self.path / PROCESSES).read_text().split()
        except OSError:
            return False

    def throttled(self) -> tuple[int, float]:
        """How often the kernel held it back, and for how many seconds in all. Raises OSError."""
        return throttled(self.path)

    def undo(self) -> RemoveCgroup:
        return RemoveCgroup(str(self.path), str(self._place.present))


def throttled(group: Path) -> tuple[int, float]:
    """How often the kernel held a group back, and for how many seconds in all. Raises OSError."""
    found = counts(group / "cpu.stat")
    seconds = found["throttled_usec"] / 1e6 if "throttled_usec" in found else found["throttled_time"] / 1e9
    return found["nr_throttled"], seconds


def counts(file: Path) -> dict[str, int]:
    """What a file of the kernel counts, one name and number a line. Raises OSError."""
    return {name: int(value) for name, value in (line.split() for line in file.read_text().splitlines())}


def present_group(pid: int, controller: str) -> tuple[Literal[1, 2], Path]:
    """Version and directory of the group in which a controller holds a process. Raises NoCgroup: a sentence."""
    version, _mount, present = _found(pid, controller)
    return version, present


def place_for(pid: int) -> Place:
    """Where a group for this process may be made. Raises NoCgroup: a sentence."""
    version, mount, present = _found(pid, "cpu")
    if version == 1:
        place = Place(1, present, present)
    else:
        # Of version 2 a group that holds processes has no controllers for groups below; the root's is excepted.
        parent = present if present == mount else present.parent
        place = Place(2, parent, present)
        try:
            passed = (parent / "cgroup.subtree_control").read_text().split()
        except OSError as error:
            raise NoCgroup(f"{parent} cannot be read: {error.strerror}") from None
        if "cpu" not in passed:
            raise NoCgroup(f"{parent} passes no cpu controller on to the control groups below it")
    for directory in (place.parent, place.parent / PROCESSES, place.present / PROCESSES):
        if not os.access(directory, os.W_OK):
            raise NoCgroup(f"{directory} may not be written by this user")
    return place


def _found(pid: int, controller: str) -> tuple[Literal[1, 2], Path, Path]:
    try:
        groups, mounts = Path(f"/proc/{pid}/cgroup").read_text(), MOUNTS.read_text()
    except OSError as error:
        raise NoCgroup(f"its control group cannot be read: {error.strerror}") from None
    found = find(groups, mounts, controller)
    if found is None:
        raise NoCgroup(f"no control group with a {controller} controller is mounted here")
    return found


def find(groups: str, mounts: str, controller: str = "cpu") -> tuple[Literal[1, 2], Path, Path] | None:
    """Version, mount point and present group of a controller, from /proc/PID/cgroup and /proc/self/mountinfo."""
    paths = {}
    for line in groups.splitlines():
        _number, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    for version, root, mount, names in _cgroup_mounts(mounts):
        # Of version 2 the controllers are those that no hierarchy of version 1 has.
        if (version == 1 and controller in names) or (version == 2 and controller not in paths):
            present = Path(paths.get(controller if version == 1 else "", "/"))
            return version, mount, mount / (present.relative_to(root) if present.is_relative_to(root) else Path())
    return None


def _cgroup_mounts(mounts: str) -> Iterator[tuple[Literal[1, 2], str, Path, list[str]]]:
    """Version, root, mount point and super options (proc(5), mountinfo)."""
    for line in mounts.splitlines():
        fields, _, kind = line.partition(" - ")
        kind_name, _source, options = kind.split(" ", 2)
        if kind_name in ("cgroup", "cgroup2"):
            root, mount = fields.split(" ")[3:5]
            yield 1 if kind_name == "cgroup" else 2, root, Path(mount), options.split(",")
