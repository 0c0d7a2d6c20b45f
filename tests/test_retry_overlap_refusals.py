"""What `retry-overlap` cannot do with its settings is one line and exit 3, and nothing is started for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.cluster import ServerInfo
from harness import cli, exits
from harness.scenarios.overlap_parameters import OverlapParameters
from harness.scenarios.retry_overlap import RetryOverlap
from refusals import refused_in_one_line

pytestmark = pytest.mark.usefixtures("nothing_given")

RUN = ["run", "retry-overlap"]
LONG = ["--driver-option", "socketTimeoutMS=30000"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fault", "earthquake"], "unknown fault 'earthquake': expected one of bandwidth, "),
        (["--fault", "none", "--fault-option", "a=b"], "--fault none: there is no fault for --fault-option"),
        (["--fault", "none", "--release", "kill-op"], "--release kill-op: without a fault nothing is held"),
        (["--fault", "write-conflict", "--write", "insert"], "--write insert makes a document of its own each time"),
        (["--fault", "write-conflict", "--write", "bulk-ordered"], "--write bulk-ordered makes a document of its own"),
        (["--fault", "hang-in-yield", "--write", "inc"], "--write inc does not go over many documents"),
        (["--fault-option", "shape=round"], "--fault-option shape=round"),
        (["--write", "upsert"], "write 'upsert': expected one of insert, insert-business-id, set"),
        (["--retry", "for ever"], "retry policy 'forever': expected fixed(INTERVAL,RETRIES)"),
        (["--driver-option", "retryWrites=true"], "nobody gives up: say with --hold how long the fault is held"),
        (LONG, "the writes must be held for 242 s, and fail-command blocks 20 s at most: expected shorter times"),
        (["--driver-option", "w=1", "--hold", "25s"], "the writes must be held for 27 s, and fail-command blocks 20 s"),
        (["--max-time", "1s"], "write insert: the driver has no maxTimeMS for it; only find-and-modify takes one"),
        (
            ["--write", "find-and-modify", "--max-time", "0.0003s"],
            "--max-time 0.0003s: input should be greater than or",
        ),
        (["--write", "w0", "--explicit-session"], "write w0: the driver refuses an explicit session"),
        (["--fault", "hang-after-command", "--cluster", "nowhere"], "there is no cluster named 'nowhere'"),
        (["--expect", "stalled"], "--expect stalled: expected one of maximum, overlap, no overlap"),
        (["--consumers", "0"], "--consumers 0: input should be greater than or equal to 1"),
        (["--max-poll-interval", "soon"], "--max-poll-interval soon: expected a duration such as 12s"),
        (["--session-timeout", "0"], "--session-timeout 0"),
        (["--driver", "java"], "--driver java"),
        (["--pool", "tepid"], "--pool tepid: input should be 'warm' or 'cold'"),
        (["--every", "5s", "--fault", "none"], "--fault none: there is no fault for --every"),
        (["--every", "5s", "--hold", "9s"], "--every: how long each fault is held is drawn; leave --hold out"),
        (["--fault", "freeze", "--release", "kill-op"], "under freeze the member takes no command; expected heal"),
        (["--every", "5s", "--release", "kill-op"], "--every: each fault is healed; leave --release kill-op out"),
        (["--every", "5s", "--records", "100"], "--every 5 s: the records are produced within 4.95 s"),
        (["--every", "25s", "--records", "1000"], "the writes must be held for 25 s, and fail-command blocks 20 s"),
        (["--rate", "0"], "--rate 0: input should be greater than 0"),
    ],
)
def test_one_line_says_what_was_expected(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused_in_one_line([*RUN, *arguments], said, tmp_path, capsys)


def test_the_help_names_every_kind_of_write_and_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*RUN, "--help"]) == exits.AS_EXPECTED
    shown = " ".join(capsys.readouterr().out.split())
    for said in ("insert-business-id", "find-and-modify", "w0", "socketTimeoutMS=1000", "fixed(0s,3)", "--every"):
        assert said in shown


REFUSING = {"fault": "fail-command", "driver_option": ["socketTimeoutMS=500"]}
LABELS = "errorLabels=RetryableError,SystemOverloadedError"


@pytest.mark.parametrize(
    ("given", "exceeded"),
    [
        ({"fault_option": ["commands=insert", "errorCode=462", LABELS]}, True),
        ({"fault_option": ["commands=insert", "errorCode=6"], "driver_option": ["timeoutMS=500"]}, True),
        ({"fault_option": ["commands=insert", "errorCode=6"]}, False),
    ],
)
def test_more_sends_than_two_are_expected_where_a_rule_says_so(given: dict[str, Any], exceeded: bool) -> None:
    scenario = RetryOverlap(OverlapParameters(**{**REFUSING, **given}))
    assert ("exceeded" in scenario.expected(ServerInfo("6.0.5", "", "none"))) is exceeded


def test_a_wait_for_a_ticket_ends_at_the_next_half_second() -> None:
    given: dict[str, Any] = {"fault": "no-tickets", "write": "find-and-modify", "max_time": 0.7}
    assert RetryOverlap(OverlapParameters(**given)).prediction.give_up == 8.0
    ended = RetryOverlap(OverlapParameters(**given, driver_option=["socketTimeoutMS=2000"]))
    assert (ended.prediction.give_up, ended.prediction.timeline.sends) == (4.0, 4)
