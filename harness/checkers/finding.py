"""What a checker says: valid, not valid, or unknown, with the guarantee in one sentence and the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Validity = Literal[True, False, "unknown"]

PROBLEMS_SHOWN: Final = 100
"""Of many alike; how many there are is said beside them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one checker on one history.

    `statement` is the guarantee in one sentence. `evidence` is JSON-able; within it are lists of sentences a person can
    act on, most important first: `problems` where the finding is not valid, `doubts` where it is unknown.
    """

    name: str
    valid: Validity
    statement: str
    evidence: dict[str, Any] = field(default_factory=dict)


def judged(
    name: str, statement: str, evidence: Mapping[str, Any], problems: Sequence[str], doubts: Sequence[str]
) -> Finding:
    """Not valid where there are problems; unknown where there are none, and doubts. Both stand in the evidence."""
    told = {
        "problem_count": len(problems),
        "problems": list(problems[:PROBLEMS_SHOWN]),
        "doubts": [] if problems else list(doubts),
    }
    return Finding(name, False if problems else "unknown" if doubts else True, statement, {**evidence, **told})
