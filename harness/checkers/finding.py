"""What a checker says: valid, not valid, or unknown, with the guarantee in one sentence and the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Validity = Literal[True, False, "unknown"]


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
