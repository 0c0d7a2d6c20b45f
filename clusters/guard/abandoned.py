"""The ledgers under the state root: where they lie, whose owner lives, what is kept, what the dead left behind.

For `ls` and `heal`; it looks at locks and open records only.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from clusters.guard.errors import LedgerError, LedgerGone
from clusters.guard.healing import Report, undo_until_done
from clusters.guard.ledger import Ledger

UNFINISHED_AGE = 60.0
"""Seconds after which a ledger that never got its name is no longer being made."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def state_root() -> Path:
    """Where ledgers and clusters that are kept are written down."""
    if own := os.environ.get("MONGOFAULT_STATE"):
        return Path(own).absolute()
    if xdg := os.environ.get("XDG_STATE_HOME"):
        return Path(xdg).absolute() / "mongofault"
    return Path.home() / ".local/state/mongofault"


def ledger_directory(name: str, root: Path | None = None) -> Path:
    """The directory of the ledger of this name. Raises ValueError for what is no name."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"expected a name of letters, digits, '.', '_', '-' (at most 64), found {name!r}")
    return (root or state_root()) / "ledgers" / name


@dataclass(slots=True)
class Survey:
    """All ledgers under a state root. A kept cluster with open faults is in `kept` and in `abandoned`."""

    held: list[Ledger] = field(default_factory=list)
    kept: list[Ledger] = field(default_factory=list)
    abandoned: list[Ledger] = field(default_factory=list)
    broken: list[LedgerError] = field(default_factory=list)
    damaged: list[Ledger] = field(default_factory=list)
    """Those without an owner in which lines cannot be read; they are among the others too."""


def survey(root: Path | None = None) -> Survey:
    """Look at every ledger, in the order of their names."""
    found = Survey()
    for directory in _directories(root):
        if directory.name.startswith("."):
            continue
        try:
            ledger = Ledger.load(directory)
            held = ledger.is_held()
            if not held:
                # Its owner may have gone, and written, since it was loaded.
                ledger = Ledger.load(directory)
        except LedgerGone:
            continue
        except LedgerError as error:
            found.broken.append(error)
            continue
        if held:
            found.held.append(ledger)
        if ledger.lifetime == "kept":
            found.kept.append(ledger)
        if not held and ledger.damage:
            found.damaged.append(ledger)
        if not held and _left_behind(ledger):
            found.abandoned.append(ledger)
    return found


def abandoned(root: Path | None = None) -> list[Ledger]:
    """Ledgers without an owner in which something is open that should not be."""
    return survey(root).abandoned


def heal(ledger: Ledger, deadline: float = 30.0, *, everything: bool = False) -> Report:
    """Take a ledger without an owner and undo what should not be open in it, or `everything`: a kept cluster goes down.

    Blocks for at most twice `deadline` seconds. Raises LedgerHeld when an owner lives. Nothing is left to do if its
    guardian, or anybody else, was faster.
    """
    try:
        ledger.hold(deadline)
    except LedgerGone:
        return Report()
    try:
        return undo_until_done(ledger, deadline, everything=everything)
    finally:
        ledger.release()


def sweep(root: Path | None = None) -> None:
    """Remove what is left of ledgers whose making or removal was cut off; nothing is open in those."""
    for directory in _directories(root):
        with suppress(OSError):
            age = time.time() - directory.stat().st_mtime
            if directory.name.startswith(".gone-") or (directory.name.startswith(".new-") and age > UNFINISHED_AGE):
                shutil.rmtree(directory, ignore_errors=True)


def _left_behind(ledger: Ledger) -> bool:
    return ledger.lifetime == "run" or any(one.scope == "fault" for one in ledger.open_records())


def _directories(root: Path | None) -> list[Path]:
    ledgers = (root or state_root()) / "ledgers"
    try:
        return sorted(one for one in ledgers.iterdir() if one.is_dir())
    except OSError:
        return []
