"""Retry policies of applications: how often a failed execution is begun again, and after which waits.

What a Kafka consumer's error handler is configured with, as plain data, and carried out by tenacity. Knows neither
MongoDB nor Kafka: which errors are not worth a retry, and how one waits, the caller says.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from harness.measures import seconds

Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]
"""Waits as many seconds. A consumer that seeks back after an error polls again here instead of sleeping."""

MOST_RETRIES: Final = 1000
"""More is as good as for ever, which Spring allows (`FixedBackOff.UNLIMITED_ATTEMPTS`) and nobody can predict."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`waits`: seconds before each retry, the longest where there is jitter. Raises ValueError.

    `jitter` is the share of each wait that is drawn: with 0.5 a wait of 10 s takes 5 to 10 s. `elapsed_limit`: an
    execution that fails as many seconds or more after the first one began is the last, whatever `retries` allows.
    (Spring's `maxElapsedTime` is another thing: it adds up the waits alone.)
    """

    name: str
    retries: int
    waits: tuple[float, ...]
    jitter: float = 0.0
    elapsed_limit: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.retries <= MOST_RETRIES:
            raise ValueError(f"expected 0 to {MOST_RETRIES} retries, found {self.retries}")
        if len(self.waits) != self.retries:
            raise ValueError(f"expected a wait for each of {self.retries} retries, found {len(self.waits)}")
        if not all(0 <= wait < math.inf for wait in self.waits):
            raise ValueError("expected waits of 0 s or more")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"expected jitter from 0 to 1, found {self.jitter:g}")
        if self.elapsed_limit is not None and not self.elapsed_limit > 0:
            raise ValueError(f"expected an elapsed limit above 0 s, found {self.elapsed_limit:g}")

    @property
    def executions(self) -> int:
        """The first one and its retries."""
        return self.retries + 1

    def drawn(self, seed: int | str) -> tuple[float, ...]:
        """The waits of one record; the same seed gives the same."""
        draw = random.Random(seed)
        return tuple(wait * (1 - self.jitter * draw.random()) for wait in self.waits)

    def another(self, retried: int, elapsed: float) -> bool:
        """Whether a retry follows after so many, where the first execution began `elapsed` seconds ago."""
        return retried < self.retries and (self.elapsed_limit is None or elapsed < self.elapsed_limit)

    def attempting(
        self,
        seed: int | str = 0,
        *,
        not_retryable: Callable[[BaseException], bool] = lambda _: False,
        sleep: Sleep = asyncio.sleep,
    ) -> AsyncRetrying:
        """For `async for attempt in ...: with attempt: ...`; the last error goes on to the caller as it was raised.

        `sleep` is awaited before each retry, also where the wait is 0 s. A cancellation is never retried.
        """
        waits = self.drawn(seed)

        def wait(state: RetryCallState) -> float:
            # asked for after the last execution too, before tenacity finds that it was the last
            return waits[state.attempt_number - 1] if state.attempt_number <= len(waits) else 0.0

        return AsyncRetrying(
            stop=lambda state: not self.another(state.attempt_number - 1, state.seconds_since_start or 0.0),
            wait=wait,
            retry=retry_if_exception(lambda error: isinstance(error, Exception) and not not_retryable(error)),
            sleep=sleep,
            reraise=True,
        )

    async def run(
        self,
        work: Callable[[int], Awaitable[Result]],
        seed: int | str = 0,
        *,
        not_retryable: Callable[[BaseException], bool] = lambda _: False,
        sleep: Sleep = asyncio.sleep,
    ) -> Result:
        """Await `work(execution)`, execution from 1, until one succeeds or the last has failed; see `attempting`."""
        async for attempt in self.attempting(seed, not_retryable=not_retryable, sleep=sleep):
            with attempt:
                return await work(attempt.retry_state.attempt_number)
        raise AssertionError("tenacity ended without a result and without an error")

    def __str__(self) -> str:
        return self.name


def fixed(
    interval: float, retries: int, *, jitter: float = 0.0, elapsed_limit: float | None = None, name: str = ""
) -> RetryPolicy:
    """The same wait before each retry, as Spring's `FixedBackOff(interval, maxAttempts)`: its attempts are retries."""
    name = name or f"fixed({interval:g}s,{retries})"
    return RetryPolicy(name, retries, (interval,) * min(max(0, retries), MOST_RETRIES), jitter, elapsed_limit)


def exponential(
    initial: float,
    multiplier: float,
    longest: float,
    retries: int,
    *,
    jitter: float = 0.0,
    elapsed_limit: float | None = None,
    name: str = "",
) -> RetryPolicy:
    """Each wait `multiplier` times the one before, none above `longest`, as `ExponentialBackOffWithMaxRetries`."""
    if not 1 <= multiplier < math.inf:
        raise ValueError(f"expected a multiplier of 1 or more, found {multiplier:g}")
    waits: list[float] = []
    for _ in range(min(retries, MOST_RETRIES)):
        waits.append(min(longest, waits[-1] * multiplier if waits else initial))
    name = name or f"exponential({initial:g}s,{multiplier:g},{longest:g}s,{retries})"
    return RetryPolicy(name, retries, tuple(waits), jitter, elapsed_limit)


PRESETS: Final[Mapping[str, RetryPolicy]] = {
    policy.name: policy
    for policy in (
        fixed(0, 0, name="none"),
        fixed(0, 9, name="spring-default"),
        fixed(0, 2, name="spring-dead-letter"),
        exponential(1, 2, 10, 6, name="spring-exponential"),
        fixed(1, 2, name="spring-retryable-topic"),
    )
}
"""Shapes that Spring for Apache Kafka documents (reference: Handling Exceptions; Non-Blocking Retries, Features).

`spring-default` is FixedBackOff(0, 9), a `DefaultErrorHandler` with nothing configured; `spring-dead-letter` the
FixedBackOff(0, 2) of the examples with a dead-letter topic; `spring-exponential` the example of
`ExponentialBackOffWithMaxRetries`: 1, 2, 4, 8, 10, 10 s; `spring-retryable-topic` the default of `@RetryableTopic`,
three attempts one second apart. What Spring does beyond counting is in none of them: from 2.9 it begins anew where the
class of the error changes (`resetStateOnExceptionChange`).
"""

_SHAPE: Final = re.compile(r"(?P<shape>fixed|exponential)\((?P<arguments>[^()]*)\)")
_ARGUMENTS: Final = {"fixed": 2, "exponential": 4}
EXPECTED: Final = (
    "expected fixed(INTERVAL,RETRIES) or exponential(INITIAL,MULTIPLIER,MAX,RETRIES), "
    f"with jitter=SHARE and elapsed=TIME where wanted, or one of {', '.join(PRESETS)}"
)


def parse(text: str) -> RetryPolicy:
    """`fixed(1s,3)`, `exponential(1s,2,10s,5,jitter=0.5)` or a preset's name. Raises ValueError with one line."""
    text = "".join(text.split())
    if text in PRESETS:
        return PRESETS[text]
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise ValueError(f"retry policy {text!r}: {EXPECTED}")
    try:
        return replace(_shaped(match["shape"], match["arguments"].split(",")), name=text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"retry policy {text!r}: {error}") from None


def _shaped(shape: str, arguments: list[str]) -> RetryPolicy:
    plain = [one for one in arguments if "=" not in one]
    named = dict(one.split("=", 1) for one in arguments if "=" in one)
    if len(plain) != _ARGUMENTS[shape] or not named.keys() <= {"jitter", "elapsed"}:
        raise ValueError(EXPECTED)
    jitter = _number(named.get("jitter", "0"), "jitter")
    elapsed = seconds(named["elapsed"]) if "elapsed" in named else None
    if not plain[-1].isascii() or not plain[-1].isdigit():
        raise ValueError(f"expected a number of retries, found {plain[-1]!r}")
    retries = int(plain[-1])
    if shape == "fixed":
        return fixed(seconds(plain[0]), retries, jitter=jitter, elapsed_limit=elapsed)
    initial, multiplier, longest = seconds(plain[0]), _number(plain[1], "the multiplier"), seconds(plain[2])
    return exponential(initial, multiplier, longest, retries, jitter=jitter, elapsed_limit=elapsed)


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a number for {what}, found {text!r}") from None
