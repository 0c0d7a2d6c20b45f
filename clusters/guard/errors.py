"""What can go wrong in the guard, each with a message of one line that a person can act on. No I/O."""

from __future__ import annotations


class UndoFailed(Exception):
    """An undo record could not be carried out; it stays open, and carrying it out again is harmless."""


class LedgerError(Exception):
    """A ledger that cannot be written or read. Raised by a write, it means: do not do what it was to announce."""


class NameTaken(LedgerError):
    """A ledger of this name exists already."""


class LedgerHeld(LedgerError):
    """A living process holds the ledger: its owner, its guardian, or somebody healing it."""


class LedgerGone(LedgerError):
    """There is no such ledger (any more): everything in it was undone."""


class GuardianFailed(Exception):
    """The guardian did not start; nothing else may be started without it."""
