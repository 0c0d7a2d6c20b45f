"""The course of one record on the server that is assumed: what the client does when, and what then runs there."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.measures import duration
from harness.prediction.execution import Execution, execution
from harness.prediction.settings import Failure, Server, Settings


@dataclass(frozen=True, slots=True)
class Row:
    """`at`: seconds since the first send; with jitter, and where a server has to be selected again, at the latest."""

    at: float
    client: str
    server: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Of one record. `sends` None: as many as time allows. `copies`: at once, at most. `give_up` None: never."""

    rows: tuple[Row, ...]
    executions: int
    sends: int | None
    copies: int
    give_up: float | None


@dataclass(slots=True)
class _Course:
    settings: Settings
    rows: list[Row] = field(default_factory=list)
    now: float = 0.0
    running: int = 0
    """Copies inside the engine."""
    begun: int = 0
    waiting: int = 0
    """Sends that wait for a session."""
    most: int = 0
    sends: int | None = 0
    session: int = 0
    transaction: int = 0
    """Session of the execution, counted from 0, and its number there: what the server knows a write by."""

    def note(self, client: str, server: str) -> None:
        self.rows.append(Row(self.now, client, server))


def timeline(settings: Settings) -> Timeline:
    course = _Course(settings)
    said = ""
    for number in range(1, settings.executions + 1):
        one = execution(settings, number)
        _begin(course, number, one, said)
        if one.seconds is None:
            return _done(course, number, None)
        if one.failure is None:
            return _done(course, number, 0.0)
        started = course.now
        if one.resent is not None:
            course.now = _exact(started + one.resent)
            _resend(course, one)
        course.now = _exact(started + one.seconds)
        said = _failed(course, one)
        if why := _last(course, number, one.failure):
            course.note(f"{said}; {why}: the record is given up (dead letter)", _aftermath(course))
            return _done(course, number, course.now)
        wait = settings.policy.waits[number - 1]
        if wait > 0:
            upto = "up to " if settings.policy.jitter else ""
            course.note(f"{said}; the application waits {upto}{duration(wait)}", _engine(course))
            course.now = _exact(course.now + wait)
            said = ""
    raise AssertionError("a record has a last execution")


def _done(course: _Course, number: int, give_up: float | None) -> Timeline:
    return Timeline(tuple(course.rows), number, course.sends, course.most, give_up)


def _last(course: _Course, number: int, failure: Failure) -> str | None:
    """Why the application retries no more; None where it does."""
    limit = course.settings.policy.elapsed_limit
    if failure in course.settings.not_retryable:
        return "not retryable"
    if number == course.settings.executions:
        return "no retries are left"
    return "no time is left" if limit is not None and course.now >= limit else None


def _begin(course: _Course, number: int, one: Execution, said: str) -> None:
    settings = course.settings
    course.transaction += 1
    if number > 1 and not settings.explicit_session and not _keeps_session(settings, number - 1):
        course.session, course.transaction = course.session + 1, 1
    course.sends = None if course.sends is None or one.sends is None else course.sends + one.sends
    client = f"{ordinal(number)} execution: sent{_identity(course)}"
    if settings.server is Server.REFUSES and number > 1:
        client = f"{ordinal(number)} execution: sent when a server is selected"
    if not settings.write.acknowledged:
        client += ", and taken for done: nobody waits for an answer"
    elif one.seconds is None:
        client += "; no timeout: it waits for as long as the server hangs"
    course.note(f"{said}; {client}" if said else client, _received(course, one))


def _received(course: _Course, one: Execution) -> str:
    if course.settings.server is Server.REFUSES:
        return "refuses it; 0 copies"
    if not one.enters:
        course.waiting += 1
        return f"it waits for session {_letter(course)}; {_engine(course)}"
    course.begun += 1
    course.running += 1
    course.most = max(course.most, course.running)
    others = f"; {_engine(course)}" if course.running > 1 else ""
    return f"copy {course.begun} begins{others}"


def _resend(course: _Course, one: Execution) -> None:
    if course.settings.server is Server.REFUSES:
        course.note("refused; the driver resends it when a server is selected", "refuses it; 0 copies")
        return
    course.waiting += 1
    course.note(
        f"socket timeout; the driver resends it{_identity(course)}",
        f"the resend waits for session {_letter(course)}; {_engine(course)}",
    )


def _failed(course: _Course, one: Execution) -> str:
    """What the application is told; what the server has stopped by then runs no more."""
    if one.stopped and one.enters:
        course.running -= 1
    if one.failure is Failure.MAX_TIME:
        if not one.enters or one.resent is not None:
            course.waiting -= 1
            return "error 50 (MaxTimeMSExpired), from the send that waited for the session"
        return "error 50 (MaxTimeMSExpired)"
    if one.failure is Failure.REFUSED:
        return "refused" if one.counted else "timeoutMS is over, after resends without number"
    if course.settings.timeout is not None:
        if not one.enters:
            course.waiting -= 1
        return "timeoutMS is over"
    return "socket timeout of the resend" if one.resent is not None else "socket timeout"


def _engine(course: _Course) -> str:
    """Copies at once. Those that maxTimeMS ends after the driver has given up are counted as if it did not."""
    settings = course.settings
    fading = settings.server is Server.INTERRUPTIBLE and settings.sent_max_time and not settings.max_time_first
    return ("up to " if fading else "") + copies(course.running)


def _aftermath(course: _Course) -> str:
    """What goes on although the application has given up: the server was told of no timeout."""
    if course.running == 0:
        return _engine(course)
    verb = "go on" if course.running > 1 else "goes on"
    text = f"{_engine(course)} {verb}"
    if course.waiting:
        text += f", {course.waiting} {'sends wait' if course.waiting > 1 else 'send waits'} for a session"
    return text


def _keeps_session(settings: Settings, number: int) -> bool:
    """Measured on 6.0.5: after error 50 the next execution has the same lsid; after a network error, a new one."""
    before = execution(settings, number)
    return before.failure is Failure.MAX_TIME and before.resent is None


def _identity(course: _Course) -> str:
    settings = course.settings
    if not settings.numbered or settings.server is Server.REFUSES:
        return ""
    return f" ({_letter(course)}, {course.transaction})"


def _exact(seconds: float) -> float:
    """Without what adding up fractions leaves behind."""
    return round(seconds, 6)


def _letter(course: _Course) -> str:
    """Sessions are A to Z, then A2 to Z2 and so on."""
    rounds, place = divmod(course.session, 26)
    return chr(ord("A") + place) + (str(rounds + 1) if rounds else "")


def copies(number: int) -> str:
    return "1 copy" if number == 1 else f"{number} copies"


def ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
