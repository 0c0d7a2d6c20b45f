"""Faults, one file each, registered by name; what they share is in `base`, how targets are named in `nodespec`."""

from faults.base import Evidence, Fault, Site, Unproven, by_name, names, summary
from faults.cpu_limit import CpuLimit
from faults.fail_command import FailCommand
from faults.fail_point import AnyFailPoint
from faults.freeze import Freeze
from faults.hang_after_command import HangAfterCommand
from faults.hide_member import HideMember
from faults.kill import Kill
from faults.move_tags import MoveTags
from faults.pause_replication import PauseReplication
from faults.remove_member import RemoveMember
from faults.restart import Restart
from faults.slow_apply import SlowApply
from faults.step_down import StepDown
from faults.stutter import Stutter
from faults.terminate import Terminate

__all__ = [
    "AnyFailPoint",
    "CpuLimit",
    "Evidence",
    "FailCommand",
    "Fault",
    "Freeze",
    "HangAfterCommand",
    "HideMember",
    "Kill",
    "MoveTags",
    "PauseReplication",
    "RemoveMember",
    "Restart",
    "Site",
    "SlowApply",
    "StepDown",
    "Stutter",
    "Terminate",
    "Unproven",
    "by_name",
    "names",
    "summary",
]
