"""A container's network namespace, entered from this machine as root: what is run there, and what of ours is there.

What is put there bears a name of its own, so that whoever knows that can take it away, and goes when the container
ends. Standard library alone, besides the engine.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from clusters.compose import engine

CHAIN: Final = "mongofault-"
"""How chains of ours begin (iptables(8))."""
DEADLINE: Final = 20.0
"""Seconds for one command of these tools; milliseconds on a machine of one's own."""
PACKAGES: Final = {"nsenter": "util-linux", "unshare": "util-linux", "tc": "iproute2", "ip": "iproute2"}
SAVED: Final = "iptables-save"
RESTORE: Final = ("iptables-restore", "--noflush", "--wait")
"""What it is told comes about as a whole or not at all."""


class ToolFailed(Exception):
    """A command could not be run in a namespace, or failed there; one line."""


def lacking(tools: Iterable[str]) -> str | None:
    """What is missing to enter namespaces of others and to use these tools there, in one line, or None."""
    if os.geteuid() != 0:
        return "the network namespace of a container can be entered by root alone"
    for one in ("nsenter", "unshare", *tools):
        if shutil.which(one) is None:
            return f"no {one} on the path: install {PACKAGES.get(one, 'iptables')}"
    return None


def process(container: str) -> int | None:
    """The process by which a container's namespace is entered; None where it does not run.

    Raises EngineFailed, and ToolFailed where it runs and cannot be seen from here.
    """
    found = engine.inspect(container)
    pid = int(found["State"].get("Pid") or 0) if found is not None else 0
    if not pid:
        return None
    try:
        if container not in Path(f"/proc/{pid}/cgroup").read_text():
            raise ToolFailed(f"container {container[:12]} does not run on this machine's own kernel")
    except FileNotFoundError:
        return None
    return pid


def shares_ours(pid: int) -> bool:
    """Whether a process has no network of its own. Raises OSError."""
    return Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()


def run(pid: int | None, *command: str, said: str = "") -> str:
    """What a command says in the namespace of that process, in ours where it is None. Raises ToolFailed."""
    return _run([*([] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]), *command], said)


def refused(*command: str, said: str = "") -> str | None:
    """Why the kernel does not take it, tried in a namespace that is made for it and gone afterwards; or None."""
    try:
        _run(["unshare", "--net", "--", *command], said)
    except ToolFailed as error:
        return str(error)
    return None


def disciplines(pid: int | None, device: str) -> list[dict[str, Any]]:
    """The queueing disciplines of a device (tc(8)), with the kernel's counts. Raises ToolFailed."""
    found = json.loads(run(pid, "tc", "-json", "-statistics", "qdisc", "show") or "[]")
    return [one for one in found if one.get("dev") == device]


def rules(pid: int) -> list[str]:
    """Of all chains that filter packets, as iptables-save(8) has them, with counts. Raises ToolFailed."""
    return run(pid, SAVED, "--counters", "--table", "filter").splitlines()


def restore(pid: int, lines: Sequence[str]) -> None:
    """Change what filters packets. Raises ToolFailed."""
    run(pid, *RESTORE, said=filtering(lines))


def filtering(lines: Sequence[str]) -> str:
    """What iptables-restore(8) is told."""
    return "\n".join(["*filter", *lines, "COMMIT", ""])


def _run(command: Sequence[str], said: str) -> str:
    import subprocess  # late: a guardian has no use for it before something is to be undone

    try:
        done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=DEADLINE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolFailed(f"{' '.join(command)}: {error}") from None
    if done.returncode != 0:
        raise ToolFailed(f"{' '.join(command)}: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")
    return done.stdout
