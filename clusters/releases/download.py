"""Files from where the user's own pip gets them, checked against their pinned hashes; and how other programs are run.

Index, proxy and certificates are those that pip is configured with; nothing of that is known here.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.errors import Refused
from clusters.releases.catalogue import Wheel

DEADLINE: Final = 900.0
"""Seconds for one program: 40 MB over a slow line."""

_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


def fetch(wheel: Wheel, into: Path) -> Path:
    """The wheel's file, in a directory `wheel`. Raises Refused where it cannot be had or is another one."""
    if importlib.util.find_spec("pip") is None:
        raise Refused(f"pip is needed to fetch {wheel.distribution}: {sys.executable} -m ensurepip")
    directory = into / "wheel"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    requirements = directory / "requirements.txt"
    requirements.write_text(wheel.requirement + "\n")
    done = run(
        [
            *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-cache-dir"),
            *("--no-deps", "--only-binary", ":all:", "--require-hashes", *wheel.options),
            *("--requirement", str(requirements), "--dest", str(directory)),
        ],
        # What it is downloading lies in the cache too, not where temporary files do.
        {"TMPDIR": str(directory)},
    )
    name = f"{wheel.distribution} {wheel.version}"
    found = sorted(directory.glob("*.whl"))
    if done.returncode == 0 and len(found) == 1:
        check(found[0], wheel.sha256, name)
        return found[0]
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise Refused(f"{name} is not the file that was expected: its SHA-256 is not {wheel.sha256}; look at the index")
    raise Refused(f"{name} cannot be fetched: pip says {_last(done.stderr)}")


def check(path: Path, expected: str, name: str) -> None:
    """Raises Refused where the file's SHA-256 is another."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise Refused(f"{name} is not the file that was expected: SHA-256 {expected}, found {found}")


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A program that does not outlive us. Raises Refused where it does not end in time, OSError where the disk is full
    (28) or the program cannot be run."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DEADLINE,
            check=False,
            preexec_fn=_end_with_us,
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"{Path(command[0]).name} did not end within {DEADLINE:g} s: look at the network") from None
    if done.returncode != 0 and os.strerror(errno.ENOSPC) in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return done


def _end_with_us() -> None:
    """Also where we are killed: a download without its owner would go on filling the cache."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _last(said: str) -> str:
    """What a program complained of, in one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # Behind "ERROR: Exception:" pip shows a traceback, whose last line says what it was.
    errors = [line for line in lines if line.startswith("ERROR:") and line != "ERROR: Exception:"]
    return repr((errors or lines or ["nothing"])[-1][:200])
