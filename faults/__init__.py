"""Faults, one file each, registered by name; what they share is in `base`, how targets are named in `nodespec`."""

from faults.base import Evidence, Fault, Unproven, by_name, names, summary
from faults.freeze import Freeze

__all__ = ["Evidence", "Fault", "Freeze", "Unproven", "by_name", "names", "summary"]
