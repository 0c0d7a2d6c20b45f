"""What `retry-overlap` cannot do with its settings is one line and exit 3, and nothing is started for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, exits

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
        (["--every", "5s", "--release", "kill-op"], "--every: each fault is healed; leave --release kill-op out"),
        (["--every", "5s", "--records", "100"], "--every 5 s: the records are produced within 4.95 s"),
        (["--every", "25s", "--records", "1000"], "the writes must be held for 25 s, and fail-command blocks 20 s"),
        (["--rate", "0"], "--rate 0: input should be greater than 0"),
    ],
)
def test_one_line_says_what_was_expected(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*RUN, *arguments]) == exits.REFUSED
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("state/ledgers/*"))
    assert not list(tmp_path.glob("runs/*"))


def test_the_help_names_every_kind_of_write_and_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*RUN, "--help"]) == exits.AS_EXPECTED
    shown = " ".join(capsys.readouterr().out.split())
    for said in ("insert-business-id", "find-and-modify", "w0", "socketTimeoutMS=1000", "fixed(0s,3)", "--every"):
        assert said in shown
