"""All questions of the suite, in the order in which the finding has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.suites.asked import beyond, deadlines, drivers, server, stopped
from harness.suites.question import Question

QUESTIONS: Final[Sequence[Question]] = (
    *server.QUESTIONS,
    *drivers.QUESTIONS,
    *deadlines.QUESTIONS,
    *stopped.QUESTIONS,
    *beyond.QUESTIONS,
)
