"""Control groups of ours, each to hold one process back: known by their name, left by all and removed.

The kernel's directories, of either version (cgroups(7)); where one may be made, and what is written into it, is the
fault's affair.
"""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from pathlib import Path

from clusters.guard.errors import UndoFailed

PREFIX = "mongofault-"
PROCESSES = "cgroup.procs"
PAUSE = 0.01
"""Seconds between two looks at a group that empties."""


def check(path: str) -> None:
    """Raises ValueError for what is no control group of ours."""
    if not Path(path).is_absolute() or not Path(path).name.startswith(PREFIX):
        raise ValueError(f"expected the absolute path of a control group {PREFIX}..., found {path!r}")


def remove(path: Path, back: Path, deadline: float) -> None:
    """Move all that is in the group to `back` and remove it; one that is gone is removed. Raises UndoFailed."""
    end = time.monotonic() + deadline
    while True:
        try:
            for pid in (path / PROCESSES).read_text().split():
                # One that has ended meanwhile needs no moving.
                with suppress(ProcessLookupError):
                    (back / PROCESSES).write_text(pid)
            path.rmdir()
            return
        except FileNotFoundError as error:
            if not path.exists():
                return
            raise UndoFailed(f"{path}: {error.filename} is not there") from None
        except OSError as error:
            # A process that was forked in there a moment ago, or one that is ending.
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise UndoFailed(f"{path} cannot be removed: {error.strerror}") from None
        time.sleep(PAUSE)
