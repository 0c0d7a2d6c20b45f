"""What looks on while a run goes on, from four independent sides; it adds to the history and decides nothing."""

from harness.watchers.watch import Watchers
from harness.watchers.watched import WatchedMember

__all__ = ["WatchedMember", "Watchers"]
