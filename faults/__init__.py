"""Faults, one file each, registered by name; what they share is in `base`, how targets are named in `nodespec`."""

from faults.bandwidth import Bandwidth
from faults.base import Evidence, Fault, Site, Unproven, by_name, names, summary
from faults.blackhole import Blackhole
from faults.cpu_limit import CpuLimit
from faults.cut import Cut
from faults.fail_command import FailCommand
from faults.fail_point import AnyFailPoint
from faults.freeze import Freeze
from faults.half_open import HalfOpen
from faults.hang_after_command import HangAfterCommand
from faults.hang_in_yield import HangInYield
from faults.hide_member import HideMember
from faults.isolate import Isolate
from faults.isolate_primary import IsolatePrimary
from faults.kill import Kill
from faults.latency import Latency
from faults.lock_wait import LockWait
from faults.memory_limit import MemoryLimit
from faults.move_tags import MoveTags
from faults.no_tickets import NoTickets
from faults.packet_loss import PacketLoss
from faults.partition import Partition
from faults.pause_replication import PauseReplication
from faults.refuse import Refuse
from faults.remove_member import RemoveMember
from faults.restart import Restart
from faults.slow_apply import SlowApply
from faults.step_down import StepDown
from faults.stutter import Stutter
from faults.swallow import Swallow
from faults.terminate import Terminate
from faults.write_conflict import WriteConflict

__all__ = [
    "AnyFailPoint",
    "Bandwidth",
    "Blackhole",
    "CpuLimit",
    "Cut",
    "Evidence",
    "FailCommand",
    "Fault",
    "Freeze",
    "HalfOpen",
    "HangAfterCommand",
    "HangInYield",
    "HideMember",
    "Isolate",
    "IsolatePrimary",
    "Kill",
    "Latency",
    "LockWait",
    "MemoryLimit",
    "MoveTags",
    "NoTickets",
    "PacketLoss",
    "Partition",
    "PauseReplication",
    "Refuse",
    "RemoveMember",
    "Restart",
    "Site",
    "SlowApply",
    "StepDown",
    "Stutter",
    "Swallow",
    "Terminate",
    "Unproven",
    "WriteConflict",
    "by_name",
    "names",
    "summary",
]
