"""Carry out what a ledger says is open, in the order that works, and write down what is done.

The same code serves the owner's own tear-down, the guardian, and `heal` by hand. It never asks what a fault was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clusters.guard.containers import ContinueContainer, LimitContainer, ReconnectContainer, RemoveContainers
from clusters.guard.errors import LedgerError, LedgerGone, UndoFailed
from clusters.guard.ledger import Ledger
from clusters.guard.namespaces import RemoveChain, RemoveDiscipline
from clusters.guard.records import Record
from clusters.guard.undo import KillProcess, RemoveCgroup, SignalProcess, alive, kill
from clusters.wire import addresses

EACH = 5.0
"""Seconds one undo may take, so that a server which does not answer holds up the others for no longer."""
REACHING = (SignalProcess, ContinueContainer, ReconnectContainer, LimitContainer, RemoveDiscipline, RemoveChain)
"""What makes a member answer again: a command to one that is still stopped, or cut off, would only hang or be taken
for one to a member that is gone."""
OUTLIVING = (RemoveCgroup,)
"""What a fault made outside of the cluster's processes: it is there when they are gone."""
RETRY = 0.5
"""Seconds between two passes."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that could not be undone, and stays open."""

    record: Record
    reason: str

    def __str__(self) -> str:
        return f"{self.record}: {self.reason}"


@dataclass(slots=True)
class Report:
    """What a pass came to. `failed` is empty when all is well."""

    done: list[Record] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)


def undo_all(ledger: Ledger, deadline: float, *, everything: bool = False) -> Report:
    """One pass over a held ledger, within `deadline` seconds: faults, and with them resources where the lifetime is
    `run` or `everything` is asked for. When nothing is left of those, the ledger is removed as well.
    """
    end = time.monotonic() + deadline
    addresses.publish(ledger.addresses)
    report = Report()
    records = ledger.open_records()
    resources = [one for one in reversed(records) if one.scope == "resource"]
    faults = [one for one in reversed(records) if one.scope == "fault"]
    take_down = everything or ledger.lifetime == "run"
    if ledger.on is not None:
        # The cluster with the faults belongs to others, who wait for it.
        _undo_faults(ledger, faults, report, end)
    if take_down:
        _take_down(ledger, resources, report, end)
    if ledger.on is None:
        _undo_faults(ledger, faults, report, end)
    if take_down and not report.failed:
        ledger.remove(whatever_is_open=True)
    return report


def undo_until_done(ledger: Ledger, deadline: float, *, everything: bool = False) -> Report:
    """Passes over a held ledger until nothing fails any more or `deadline` seconds are over."""
    end = time.monotonic() + deadline
    done: list[Record] = []
    while True:
        report = undo_all(ledger, max(0.1, end - time.monotonic()), everything=everything)
        done += report.done
        if not report.failed or time.monotonic() + RETRY > end:
            return Report(done, report.failed)
        time.sleep(RETRY)


def _take_down(ledger: Ledger, resources: Sequence[Record], report: Report, end: float) -> None:
    """Processes first, all at once; then, in reverse order, the rest: nobody writes into the directories any more."""
    kills = [(one, one.undo) for one in resources if isinstance(one.undo, KillProcess)]
    reasons = kill([undo for _record, undo in kills], _share(end))
    outcome = [(record, reason) for (record, _undo), reason in zip(kills, reasons, strict=True)]
    outcome += [(one, _undo(one, end)) for one in resources if not isinstance(one.undo, KillProcess)]
    _write_down(ledger, outcome, report)


def _undo_faults(ledger: Ledger, faults: Sequence[Record], report: Report, end: float) -> None:
    """Newest first, but before everything what lets a member be reached."""
    if not faults:
        return
    gone = _cluster_is_gone(ledger)
    ordered = sorted(faults, key=lambda one: not isinstance(one.undo, REACHING))
    outcome = [(one, None if gone and not isinstance(one.undo, OUTLIVING) else _undo(one, end)) for one in ordered]
    _write_down(ledger, outcome, report)


def _undo(record: Record, end: float) -> str | None:
    try:
        record.undo.undo(_share(end))
    except UndoFailed as error:
        return str(error)
    except Exception as error:  # A record that nobody can carry out must not keep the others from being undone.
        return f"{type(error).__name__}: {error}"
    return None


def _share(end: float) -> float:
    return max(0.1, min(EACH, end - time.monotonic()))


def _write_down(ledger: Ledger, outcome: Sequence[tuple[Record, str | None]], report: Report) -> None:
    report.failed += [Failure(record, reason) for record, reason in outcome if reason is not None]
    done = [record for record, reason in outcome if reason is None]
    report.done += done
    try:
        ledger.close_many(record.id for record in done)
    except LedgerError:
        # A full disk. They stay open although they are done; to undo them once more is harmless.
        return


def _cluster_is_gone(ledger: Ledger) -> bool:
    """Whether no process or container is left of the cluster that the faults are on: nothing is to be put back then."""
    if ledger.on is None:
        cluster = ledger
    elif "ledger" in ledger.on:
        try:
            cluster = Ledger.load(Path(ledger.on["ledger"]))
        except LedgerGone:
            return True
        except LedgerError:
            return False
        if cluster.id != ledger.on["id"]:
            return True
    else:
        return False
    resources = [one.undo for one in cluster.open_records()]
    if any(one.exist() for one in resources if isinstance(one, RemoveContainers)):
        return False
    kills = [one for one in resources if isinstance(one, KillProcess)]
    return cluster.had_processes and not any(alive(kills))
