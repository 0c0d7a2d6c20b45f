"""Faults, one file each, registered by name; what they share is in `base`, how targets are named in `nodespec`."""

from faults.base import Evidence, Fault, Site, Unproven, by_name, names, summary
from faults.freeze import Freeze
from faults.hang_after_command import HangAfterCommand
from faults.pause_replication import PauseReplication

__all__ = [
    "Evidence",
    "Fault",
    "Freeze",
    "HangAfterCommand",
    "PauseReplication",
    "Site",
    "Unproven",
    "by_name",
    "names",
    "summary",
]
