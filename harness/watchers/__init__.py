"""What looks on while a run goes: stream progress, canaries, `$currentOp`, pools, tokens; and the alarms."""

from harness.watchers.alarms import Alarm
from harness.watchers.progress import StreamState
from harness.watchers.watch import Watchers
from harness.watchers.watched import WatchedMember

__all__ = ["Alarm", "StreamState", "WatchedMember", "Watchers"]
