"""What must happen when this process is gone: undo records on disk before the act, and a guardian that outlives it.

Knows processes, containers, directories and server commands; nothing of clusters or faults. Imports only the standard
library until a command is to be sent or a container undone.
"""

from clusters.guard.abandoned import Survey, abandoned, heal, ledger_directory, state_root, survey, sweep
from clusters.guard.containers import (
    ContinueContainer,
    LimitContainer,
    ReconnectContainer,
    RemoveContainers,
    StartContainer,
)
from clusters.guard.directories import MARKER, make_directory, new_path
from clusters.guard.errors import GuardianFailed, LedgerError, LedgerGone, LedgerHeld, NameTaken, UndoFailed
from clusters.guard.guardian import Guardian
from clusters.guard.healing import Failure, Report, undo_all, undo_until_done
from clusters.guard.ledger import Ledger
from clusters.guard.logins import entrust
from clusters.guard.namespaces import RemoveChain, RemoveDiscipline
from clusters.guard.process import (
    STOPPED,
    TOKEN_VARIABLE,
    Process,
    find_by_token,
    find_by_tokens,
    identify,
    new_token,
    send_signal,
    state,
    wait_gone,
)
from clusters.guard.records import Lifetime, Opening, Record, Scope
from clusters.guard.undo import (
    AddMember,
    EndStepDown,
    FailPointOff,
    FsyncUnlock,
    KillProcess,
    OfServer,
    Reconfigure,
    RemoveCgroup,
    RemoveDirectory,
    RemoveRule,
    RunCommand,
    SignalProcess,
    StartProcess,
    Undo,
    from_plain,
    to_plain,
)

__all__ = [
    "MARKER",
    "STOPPED",
    "TOKEN_VARIABLE",
    "AddMember",
    "ContinueContainer",
    "EndStepDown",
    "FailPointOff",
    "Failure",
    "FsyncUnlock",
    "Guardian",
    "GuardianFailed",
    "KillProcess",
    "Ledger",
    "LedgerError",
    "LedgerGone",
    "LedgerHeld",
    "Lifetime",
    "LimitContainer",
    "NameTaken",
    "OfServer",
    "Opening",
    "Process",
    "Reconfigure",
    "ReconnectContainer",
    "Record",
    "RemoveCgroup",
    "RemoveChain",
    "RemoveContainers",
    "RemoveDirectory",
    "RemoveDiscipline",
    "RemoveRule",
    "Report",
    "RunCommand",
    "Scope",
    "SignalProcess",
    "StartContainer",
    "StartProcess",
    "Survey",
    "Undo",
    "UndoFailed",
    "abandoned",
    "entrust",
    "find_by_token",
    "find_by_tokens",
    "from_plain",
    "heal",
    "identify",
    "ledger_directory",
    "make_directory",
    "new_path",
    "new_token",
    "send_signal",
    "state",
    "state_root",
    "survey",
    "sweep",
    "to_plain",
    "undo_all",
    "undo_until_done",
    "wait_gone",
]
