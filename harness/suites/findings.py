"""What a suite came to: its answers and what they are from, for programs, and its exit code. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusters.cluster import ServerInfo
from harness import exits
from harness.suites.question import Answer, Evidence


@dataclass(frozen=True, slots=True)
class Findings:
    """The answers, what they are from, and how long it took (seconds). `router`: what stood before several shards."""

    server: ServerInfo
    router: str
    seed: int
    answers: Sequence[Answer]
    evidence: Evidence
    seconds: float
    record: str

    @property
    def exit_code(self) -> int:
        """A contradiction goes before an answer that was not to be had; what stays open is neither."""
        verdicts = {one.verdict for one in self.answers}
        if "contradicted" in verdicts:
            return exits.NOT_AS_EXPECTED
        return exits.UNKNOWN if "unknown" in verdicts else exits.AS_EXPECTED

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "server": {"version": self.server.version, "git_version": self.server.git_version, "router": self.router},
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "answers": [
                {
                    "question": one.question.name,
                    "verdict": one.verdict,
                    "reason": one.reason,
                    "comparisons": [dataclasses.asdict(comparison) for comparison in one.comparisons],
                }
                for one in self.answers
            ],
            "runs": {name: dataclasses.asdict(run) for name, run in self.evidence.runs.items()},
            "looks": dict(self.evidence.looks),
        }
