"""Limits of a container: put by the engine, which gives them to its control group, and read back from the kernel.

Both versions of control groups. What is undone is what the engine knew of before.
"""

from __future__ import annotations

from typing import Any, Final

from clusters.compose import engine
from clusters.guard import LimitContainer
from clusters.guard.cgroups import PROCESSES
from faults.cgroup import PERIOD_US, NoCgroup, counts, present_group, throttled

NONE: Final = -1
"""Of the CPU."""
MOST: Final = (1 << 63) - 4096
"""Bytes of memory that the kernel takes for no limit; the engine has no other word for it, and passes on no -1 for the
sum with swap (measured on 20.10)."""
MEBIBYTE: Final = 1 << 20
AT_THE_LIMIT: Final = 1 << 20
"""Bytes that it may be below: each CPU takes a quarter of a megabyte in advance."""


class _Limits:
    """Of one container and its first process. Raises NoCgroup where they cannot be put back or looked at."""

    def __init__(self, container: str, pid: int, controller: str) -> None:
        self._container = container
        self.version, self.path = present_group(pid, controller)
        try:
            found = engine.inspect(container)
        except engine.EngineFailed as error:
            raise NoCgroup(str(error)) from None
        if found is None:
            raise NoCgroup("its container is gone")
        self._before: dict[str, Any] = found["HostConfig"]

    def _limit(self, **limits: int) -> None:
        try:
            engine.limit(self._container, limits)
        except engine.EngineFailed as error:
            raise NoCgroup(str(error)) from None

    def _has(self, pid: int) -> bool:
        return str(pid) in (self.path / PROCESSES).read_text().split()


class ContainerCpu(_Limits):
    """The CPU time of a container (see `faults.cgroup.CpuGroup`)."""

    def __init__(self, container: str, pid: int) -> None:
        super().__init__(container, pid, "cpu")
        if self._before.get("NanoCpus"):
            raise NoCgroup("its container was started with --cpus, which the engine cannot put back")
        self._quota = 0
        self._times, self._seconds = 0, 0.0

    def make(self, share: float) -> None:
        self._times, self._seconds = throttled(self.path)
        self._quota = round(share * PERIOD_US)
        self._limit(cpu_period=PERIOD_US, cpu_quota=self._quota)

    def take(self, pid: int) -> None:
        """It is in it."""

    def holds(self, pid: int) -> bool:
        try:
            if self.version == 2:
                return self._has(pid) and (self.path / "cpu.max").read_text().split()[0] == str(self._quota)
            return self._has(pid) and (self.path / "cpu.cfs_quota_us").read_text().strip() == str(self._quota)
        except OSError:
            return False

    def throttled(self) -> tuple[int, float]:
        """Since it was limited. Raises OSError."""
        times, seconds = throttled(self.path)
        return times - self._times, seconds - self._seconds

    def undo(self) -> LimitContainer:
        period, quota = (self._before.get(name) or 0 for name in ("CpuPeriod", "CpuQuota"))
        return LimitContainer(self._container, {"cpu_period": period or PERIOD_US, "cpu_quota": quota or NONE})


class ContainerMemory(_Limits):
    """The memory of a container, what it keeps of files included."""

    def __init__(self, container: str, pid: int) -> None:
        super().__init__(container, pid, "memory")
        self.limit = 0
        self._kept = 0

    def make(self, limit: int) -> None:
        """So many bytes, and no more by swapping. Raises NoCgroup: the kernel refuses what it cannot take back."""
        self._kept = self.kept()
        self._limit(mem_limit=limit, memswap_limit=limit)
        self.limit = self._file("memory.limit_in_bytes", "memory.max")

    def holds(self, pid: int) -> bool:
        try:
            return self._has(pid) and self._file("memory.limit_in_bytes", "memory.max") == self.limit
        except (OSError, ValueError):
            return False

    def kept(self) -> int:
        """Bytes that it keeps of files, which can be read again. Raises OSError."""
        found = counts(self.path / "memory.stat")
        total = "total_" if self.version == 1 else ""
        return found[f"{total}inactive_file"] + found[f"{total}active_file"]

    def used(self) -> int:
        """Bytes in all. Raises OSError."""
        return self._file("memory.usage_in_bytes", "memory.current")

    def needed(self) -> int:
        """Bytes that it could not do without. Raises OSError."""
        return self.used() - self.kept()

    def taken_back(self) -> int:
        """Bytes kept of files that the kernel has taken from it since it was limited, for want of others; 0 where it is
        not at its limit. How often it wanted more than that, kernels have ceased to count (memory.failcnt, 6.18).
        Raises OSError."""
        return max(0, self._kept - self.kept()) if self.used() > self.limit - AT_THE_LIMIT else 0

    def killed(self) -> bool:
        """Whether the kernel has ended it for want of memory, as the engine says."""
        try:
            state = (engine.inspect(self._container) or {"State": {}})["State"]
        except engine.EngineFailed:
            return False
        return bool(state.get("OOMKilled")) and not state["Running"]

    def undo(self) -> LimitContainer:
        limit, swap = (self._before.get(name) or 0 for name in ("Memory", "MemorySwap"))
        return LimitContainer(
            self._container, {"mem_limit": limit or MOST, "memswap_limit": swap if swap > 0 else MOST}
        )

    def _file(self, first: str, second: str) -> int:
        """Raises OSError, ValueError where it says `max`."""
        return int((self.path / (first if self.version == 1 else second)).read_text())
