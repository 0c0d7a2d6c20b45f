"""Retry policies are read from text, wait as they say, and are carried out to the letter; cancellations never are."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.drivers import retries
from harness.drivers.retries import RetryPolicy, exponential, fixed, parse


@pytest.mark.parametrize(
    ("text", "waits", "jitter", "limit"),
    [
        ("fixed(1s,3)", (1, 1, 1), 0, None),
        (" fixed( 250ms , 2 ) ", (0.25, 0.25), 0, None),
        ("fixed(0s,0)", (), 0, None),
        ("fixed(2m,1,jitter=1)", (120,), 1, None),
        ("exponential(1s,2,10s,5)", (1, 2, 4, 8, 10), 0, None),
        ("exponential(1s,2,10s,5,jitter=0.5)", (1, 2, 4, 8, 10), 0.5, None),
        ("exponential(2s,1.5,30s,4,elapsed=60s,jitter=0.1)", (2, 3, 4.5, 6.75), 0.1, 60),
        ("exponential(5s,3,1s,2)", (1, 1), 0, None),
        ("none", (), 0, None),
        ("spring-default", (0,) * 9, 0, None),
        ("spring-dead-letter", (0, 0), 0, None),
        ("spring-exponential", (1, 2, 4, 8, 10, 10), 0, None),
        ("spring-retryable-topic", (1, 1), 0, None),
    ],
)
def test_a_policy_waits_what_its_text_says(text: str, waits: tuple[float, ...], jitter: float, limit: float) -> None:
    policy = parse(text)
    assert (policy.waits, policy.jitter, policy.elapsed_limit) == (waits, jitter, limit)
    assert policy.executions == policy.retries + 1 == len(waits) + 1
    assert policy.name == str(policy) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected fixed(INTERVAL,RETRIES) or exponential("),
        ("forever", "one of none, spring-default"),
        ("fixed(1s)", "expected fixed("),
        ("fixed(1s,2,3)", "expected fixed("),
        ("fixed(soon,3)", "expected a duration such as 12s"),
        ("fixed(1s,three)", "expected a number of retries, found 'three'"),
        ("fixed(1s,-1)", "expected a number of retries, found '-1'"),
        ("fixed(1s,1001)", "expected 0 to 1000 retries, found 1001"),
        ("fixed(1s,99999999999999999999)", "expected 0 to 1000 retries"),
        ("fixed(1s,3,jitter=2)", "expected jitter from 0 to 1, found 2"),
        ("fixed(1s,3,jitter=nan)", "expected jitter from 0 to 1"),
        ("fixed(1s,3,jitter=much)", "expected a number for jitter, found 'much'"),
        ("fixed(1s,3,elapsed=0s)", "expected an elapsed limit above 0 s"),
        ("fixed(1s,3,until=9s)", "expected fixed("),
        ("exponential(1s,0.5,10s,5)", "expected a multiplier of 1 or more, found 0.5"),
        ("exponential(1s,inf,10s,5)", "expected a multiplier of 1 or more"),
        ("exponential(1s,2,10s)", "expected fixed("),
        ("exponential(1s,2,10s,5", "expected fixed("),
    ],
)
def test_a_text_that_is_no_policy_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"retry policy '.*': ") as caught:
        parse(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_policy_has_a_wait_for_each_retry() -> None:
    with pytest.raises(ValueError, match="expected a wait for each of 2 retries, found 1"):
        RetryPolicy("odd", 2, (1.0,))
    with pytest.raises(ValueError, match="expected waits of 0 s or more"):
        fixed(-1, 2)


@given(
    initial=st.floats(0, 1e3),
    multiplier=st.floats(1, 1e3),
    longest=st.floats(0, 1e6),
    count=st.integers(0, 50),
    jitter=st.floats(0, 1),
    seed=st.text(max_size=8),
)
def test_drawn_waits_keep_to_their_share_and_to_their_seed(
    initial: float, multiplier: float, longest: float, count: int, jitter: float, seed: str
) -> None:
    policy = exponential(initial, multiplier, longest, count, jitter=jitter)
    assert list(policy.waits) == sorted(policy.waits)
    assert all(wait <= longest for wait in policy.waits)
    drawn = policy.drawn(seed)
    assert drawn == policy.drawn(seed)
    for wait, got in zip(policy.waits, drawn, strict=True):
        assert wait * (1 - jitter) * (1 - 1e-9) <= got <= wait


def test_jitter_tells_records_apart() -> None:
    policy = parse("fixed(10s,3,jitter=1)")
    assert policy.drawn("orders/0/1") != policy.drawn("orders/0/2")


class Work:
    """Fails with each of the errors in turn, then gives the number of the execution."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.executions: list[int] = []

    async def __call__(self, execution: int) -> int:
        self.executions.append(execution)
        if self.errors:
            raise self.errors.pop(0)
        return execution


class Waits(list[float]):
    """Notes how long it would have slept."""

    async def sleep(self, seconds: float) -> None:
        self.append(float(seconds))


async def test_executions_are_repeated_until_one_succeeds() -> None:
    work, waits = Work(OSError("a"), OSError("b")), Waits()
    assert await parse("exponential(1s,2,10s,5)").run(work, sleep=waits.sleep) == 3
    assert work.executions == [1, 2, 3]
    assert waits == [1, 2]


async def test_the_last_error_is_raised_as_it_is_when_retries_are_used_up() -> None:
    errors = [OSError(str(number)) for number in range(10)]
    work, waits = Work(*errors), Waits()
    with pytest.raises(OSError, match="9") as caught:
        await parse("spring-default").run(work, sleep=waits.sleep)
    assert caught.value is errors[-1]
    assert work.executions == list(range(1, 11))
    assert waits == [0] * 9, "it is waited before each retry, also where there is nothing to wait for"


async def test_without_retries_there_is_one_execution() -> None:
    work, waits = Work(OSError("first"), OSError("second")), Waits()
    with pytest.raises(OSError, match="first"):
        await parse("none").run(work, sleep=waits.sleep)
    assert waits == []


async def test_an_error_that_is_not_retryable_ends_it_at_once() -> None:
    work, waits = Work(OSError("again"), KeyError("never"), OSError("again")), Waits()
    with pytest.raises(KeyError):
        await parse("fixed(1s,5)").run(work, not_retryable=lambda error: isinstance(error, KeyError), sleep=waits.sleep)
    assert work.executions == [1, 2]


async def test_a_cancellation_is_not_retried() -> None:
    work = Work(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await parse("fixed(0s,5)").run(work)
    assert work.executions == [1]


async def test_waits_are_drawn_from_the_seed() -> None:
    policy, waits = parse("fixed(10s,3,jitter=0.5)"), Waits()
    with pytest.raises(OSError, match="x"):
        await policy.run(Work(*[OSError("x")] * 4), "orders/0/1", sleep=waits.sleep)
    assert tuple(waits) == policy.drawn("orders/0/1")


async def test_an_execution_that_fails_past_the_elapsed_limit_is_the_last() -> None:
    waits = Waits()

    async def slow(execution: int) -> None:
        await asyncio.sleep(0.06)
        raise OSError(execution)

    with pytest.raises(OSError, match="2"):
        await parse("fixed(0s,9,elapsed=100ms)").run(slow, sleep=waits.sleep)


async def test_attempts_can_be_taken_one_by_one() -> None:
    seen, waits = [], Waits()
    async for attempt in parse("fixed(3s,4)").attempting(sleep=waits.sleep):
        with attempt:
            seen.append(attempt.retry_state.attempt_number)
            if len(seen) < 3:
                raise OSError
    assert seen == [1, 2, 3]
    assert waits == [3, 3]


def test_every_preset_is_named_in_what_is_expected() -> None:
    assert all(name in retries.EXPECTED for name in retries.PRESETS)
