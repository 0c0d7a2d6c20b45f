"""What can go wrong on the way to a usable cluster, each as one line a user can act on."""

from __future__ import annotations


class ClusterError(Exception):
    """The cluster could not be brought up, or is not what was asked for. Ends a command with exit 2."""


class Refused(Exception):
    """The request cannot be carried out as it stands and nothing was started. Ends a command with exit 3."""


class MemberDied(ClusterError):
    """A member ended while it was needed; the message holds the reason from its log."""

    def __init__(self, name: str, exit_code: int | None, lines: list[str]) -> None:
        self.name = name
        self.exit_code = exit_code
        said = "; its last words: " + " | ".join(lines) if lines else "; it left no log"
        if exit_code is None:
            code = "exit code unknown"
        else:
            code = f"exit code {exit_code}" if exit_code >= 0 else f"killed by signal {-exit_code}"
        super().__init__(f"{name} ended out of turn ({code}){said}")
