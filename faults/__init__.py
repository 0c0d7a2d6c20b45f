"""Faults, one file each, registered by name; what they share is in `base`, how targets are named in `nodespec`."""

from faults.base import Evidence, Fault, Site, Unproven, by_name, names, summary
from faults.fail_command import FailCommand
from faults.fail_point import AnyFailPoint
from faults.freeze import Freeze
from faults.hang_after_command import HangAfterCommand
from faults.kill import Kill
from faults.pause_replication import PauseReplication
from faults.restart import Restart
from faults.stutter import Stutter
from faults.terminate import Terminate

__all__ = [
    "AnyFailPoint",
    "Evidence",
    "FailCommand",
    "Fault",
    "Freeze",
    "HangAfterCommand",
    "Kill",
    "PauseReplication",
    "Restart",
    "Site",
    "Stutter",
    "Terminate",
    "Unproven",
    "by_name",
    "names",
    "summary",
]
