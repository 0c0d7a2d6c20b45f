"""The resume token as a sign of life: an idle healthy stream's token moves on with the periodic no-op writer.

Pure: fed with tokens and cluster times. Needs no writes and no privileges, but is as slow as the no-op interval
(10 s by default): when an alarm is due, the token has not yet stood still for that long. It is for the reader of the
history; no alarm and no checker goes by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.history import END_OF_RUN, Event

TIMESTAMP = 0x82
"""First byte of a resume token's key string: a timestamp follows, seconds and increment, 4 bytes each."""


@dataclass(frozen=True, slots=True)
class TokenState:
    """`moving`: the token changed within the window. `behind`: seconds of cluster time it lags; None if not known."""

    stream: str
    moving: bool
    cluster_time_moving: bool
    behind: int | None


@dataclass(slots=True)
class _Token:
    data: str
    moved: int
    state: tuple[bool, bool] | None = None


class Tokens:
    """`window` in seconds: the no-op interval with room for its delivery."""

    def __init__(self, *, window: float) -> None:
        self._window = int(window * 1e9)
        self._tokens: dict[str, _Token] = {}
        self._cluster_time: int | None = None
        self._cluster_moved = 0

    def feed(self, event: Event) -> None:
        """Take in one event of the history; kinds it has no use for are passed over."""
        if event.kind in ("stream.event", "stream.empty"):
            data = event.get("token")
            if data is None:
                return
            token = self._tokens.get(event["stream"])
            if token is None:
                self._tokens[event["stream"]] = _Token(data, event.t)
            elif token.data != data:
                token.data, token.moved = data, event.t
        elif event.kind == "stream.closed" and event.get("reason") == END_OF_RUN:
            self._tokens.pop(event["stream"], None)

    def cluster_time(self, seconds: int | None, now: int) -> None:
        """The newest cluster time known, in seconds."""
        if seconds is not None and seconds != self._cluster_time:
            self._cluster_time, self._cluster_moved = seconds, now

    def judge(self, now: int) -> list[TokenState]:
        """The streams for which something changed."""
        cluster_moving = self._cluster_time is not None and now - self._cluster_moved <= self._window
        changed = []
        for name, token in self._tokens.items():
            state = (now - token.moved <= self._window, cluster_moving)
            if state != token.state:
                token.state = state
                changed.append(TokenState(name, *state, self._behind(token)))
        return changed

    def _behind(self, token: _Token) -> int | None:
        at = token_seconds(token.data)
        return None if at is None or self._cluster_time is None else self._cluster_time - at


def token_seconds(data: str) -> int | None:
    """The cluster time in a resume token's `_data`, in seconds; None if it is not of the form known."""
    try:
        raw = bytes.fromhex(data[:18])
    except ValueError:
        return None
    return int.from_bytes(raw[1:5], "big") if len(raw) == 9 and raw[0] == TIMESTAMP else None
