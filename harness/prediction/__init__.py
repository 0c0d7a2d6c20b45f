"""How often one write may be sent and run, from settings alone: nothing is connected to, read or waited for.

Words: an *execution* is one run of the application for a record; a *send* one request; the driver's second send of an
execution is its *resend*; a *copy* is an execution that works inside the server's engine.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from harness.measures import times
from harness.prediction.bounds import Counts, Polls, bounds, polls
from harness.prediction.rules import Broken, broken
from harness.prediction.settings import Failure, Server, Settings
from harness.prediction.timeline import Row, Timeline, timeline
from harness.prediction.warnings import Caution, warnings
from harness.prediction.writes import WRITES, Write

__all__ = [
    "WRITES",
    "Broken",
    "Caution",
    "Counts",
    "Failure",
    "Polls",
    "Prediction",
    "Row",
    "Server",
    "Settings",
    "Timeline",
    "Write",
    "predict",
]


@dataclass(frozen=True, slots=True)
class Prediction:
    """`timeline` is on the server that is assumed; `bounds` of one record hold for any, but for `rules`."""

    settings: Settings
    timeline: Timeline
    bounds: Counts
    polls: Polls
    rules: tuple[Broken, ...]
    warnings: tuple[Caution, ...]

    @property
    def give_up(self) -> float | None:
        """Seconds until the application gives the record up on the server that is assumed; None: never."""
        return self.timeline.give_up

    @property
    def all_consumers(self) -> Counts:
        """Each consumer at one record of its own."""
        return self.bounds.times(self.settings.consumers)

    @property
    def redelivered(self) -> Counts:
        """One record, with what its redeliveries add until the first delivery is through."""
        return self.bounds.times(1 + self.polls.redeliveries)

    @property
    def leaves(self) -> str:
        """What one delivery of a record leaves at most."""
        number = self.settings.executions
        return self.settings.write.leaves.format(n=number, times=times(number))

    def recorded(self) -> dict[str, Any]:
        """Fields of the history's `predicted`, of one record."""
        return {
            **asdict(self.bounds),
            "give_up": self.give_up,
            "rules": [asdict(one) for one in self.rules],
            "warnings": [asdict(one) for one in self.warnings],
        }

    def plain(self) -> dict[str, Any]:
        """All of it, as JSON has it; times in seconds."""
        settings = asdict(self.settings)
        settings["write"] = self.settings.write.name
        settings["not_retryable"] = sorted(self.settings.not_retryable)
        settings["policy"]["waits"] = list(self.settings.policy.waits)
        return {
            "settings": settings,
            "timeline": [asdict(row) for row in self.timeline.rows],
            "assumed": {
                "executions": self.timeline.executions,
                "sends": self.timeline.sends,
                "copies": self.timeline.copies,
                "give_up": self.give_up,
            },
            "at_most": {
                "record": asdict(self.bounds),
                "consumers": asdict(self.all_consumers),
                "redelivered": asdict(self.redelivered),
            },
            "leaves": self.leaves,
            "polls": {**asdict(self.polls), "suffices": self.polls.suffices},
            "rules": [asdict(one) for one in self.rules],
            "warnings": [asdict(one) for one in self.warnings],
        }


def predict(settings: Settings) -> Prediction:
    """Everything that follows from the settings."""
    course = timeline(settings)
    kafka = polls(settings, course.give_up)
    return Prediction(settings, course, bounds(settings), kafka, broken(settings), warnings(settings, kafka))
