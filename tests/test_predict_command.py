"""`predict` reads settings, says what they come to and shows no password; what it cannot use is one line and exit 3."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from clusters.errors import Refused
from clusters.uri import driver_options
from harness import cli, exits

SECRET = "s3cr3t"
URI = f"mongodb://ann:{SECRET}@db1.example,db2.example/app?replicaSet=rs&socketTimeoutMS=30000&retryWrites=true"
BULK = ["--write", "bulk-ordered", "--max-poll-records", "1"]
IN_PLACE = "--no-seek-after-error"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGOFAULT_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def predicted(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.run(["predict", "--json", *arguments]) == exits.AS_EXPECTED
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_table_of_four_executions_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.run(["predict", "--uri", URI, "--retry", "fixed(0s,3)", *BULK, "--consumers", "5", IN_PLACE])
        == exits.AS_EXPECTED
    )
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "0 s 1st execution: sent (A, 1) copy 1 begins" in lines
    assert any(line.startswith("240 s") and "4 copies go on, 4 sends wait for a session" in line for line in lines)
    assert "as assumed at most 5 consumers" in lines
    assert "executions 4 4 20" in lines
    assert "sends 8 8 40" in lines
    assert "copies at once 4 4 20" in lines
    assert "given up after 240 s" in lines
    assert any("more than 240 s is needed for polls of 1 record; 300 s suffices" in line for line in lines)


def test_ten_executions_come_to_twenty_sends_and_do_not_fit_into_a_poll(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["predict", URI, "--retry", "spring-default", *BULK, IN_PLACE]) == exits.AS_EXPECTED
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "as assumed at most redelivered once" in lines
    assert "sends 20 20 40" in lines
    assert "copies at once 10 10 20" in lines
    assert any("more than 600 s is needed for polls of 1 record; 300 s does not suffice" in line for line in lines)
    assert any("zero" not in line and line.startswith("no wait between executions") for line in lines)


def test_a_consumer_that_seeks_back_is_told_when_it_polls_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["predict", URI, "--retry", "fixed(2s,3)", "--write", "update-many"]) == exits.AS_EXPECTED
    lines = capsys.readouterr().out.splitlines()
    assert (
        "max.poll.interval.ms: more than 15002 s is needed for polls of 500 records, each as slow as it can be; 300 s "
        "does not suffice (where the first record of a poll fails, the next poll comes after 32 s)"
    ) in lines
    assert any("where all records of a poll are that slow, the consumer leaves the group" in line for line in lines)


def test_with_jitter_times_are_the_latest(capsys: pytest.CaptureFixture[str]) -> None:
    for jitter, wait, end in (("", "waits 1 s", "5 s"), (",jitter=1", "waits up to 1 s", "5 s at the latest")):
        cli.run(["predict", "--retry", f"fixed(1s,1{jitter})", "--socket-timeout", "1s"])
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert f"given up after {end}" in lines
        assert any(wait in line for line in lines)


def test_a_password_is_read_by_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--uri", URI], ["--uri", URI, "--json"], ["--uri", URI, "--write", "nonsense"]):
        cli.run(["predict", *arguments])
    cli.run(["predict", f"mongodb://ann:{SECRET}?x@h/"])
    cli.run(["predict", f"mongodb://ann:x?{SECRET}=y@h/"])
    cli.run(["predict", f"{SECRET}:more"])
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err


def test_nobody_is_connected_to_and_no_name_is_looked_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", asked)
    monkeypatch.setattr(socket, "getaddrinfo", asked)
    found = predicted(capsys, "mongodb+srv://ann:x@cluster.example/?socketTimeoutMS=1500&tlsCAFile=/no/such/file")
    assert found["settings"]["socket_timeout"] == 1.5


def test_options_have_the_drivers_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    found = predicted(capsys)
    assert found["settings"] == {
        "policy": {
            "name": "spring-default",
            "retries": 9,
            "waits": [0.0] * 9,
            "jitter": 0.0,
            "elapsed_limit": None,
        },
        "write": "insert",
        "socket_timeout": None,
        "connect_timeout": 20.0,
        "timeout": None,
        "max_time": None,
        "retry_writes": True,
        "explicit_session": False,
        "not_retryable": [],
        "consumers": 1,
        "max_poll_records": 500,
        "max_poll_interval": 300.0,
        "session_timeout": 45.0,
        "seek_after_error": True,
        "server": "hangs",
    }
    assert found["assumed"] == {"executions": 1, "sends": 1, "copies": 1, "give_up": None}


def test_the_command_line_goes_before_the_uri(capsys: pytest.CaptureFixture[str]) -> None:
    text = "socketTimeoutMS=30000&connectTimeoutMS=0&retryWrites=true&timeoutMS=9000"
    read = predicted(capsys, text)["settings"]
    assert (read["socket_timeout"], read["connect_timeout"], read["retry_writes"], read["timeout"]) == (
        30.0,
        None,
        True,
        9.0,
    )
    given = predicted(
        capsys,
        *(text, "--socket-timeout", "0", "--connect-timeout", "5s", "--no-retry-writes", "--timeout", "250ms"),
    )["settings"]
    assert (given["socket_timeout"], given["connect_timeout"], given["retry_writes"], given["timeout"]) == (
        None,
        5.0,
        False,
        0.25,
    )


def test_all_that_is_given_comes_into_the_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    found = predicted(
        capsys,
        *("--retry", "fixed(1s,2)", "--write", "find-and-modify", "--socket-timeout", "1500ms", "--max-time", "700ms"),
        *("--server", "hangs-interruptibly", "--explicit-session", "--not-retryable", "refused", "--consumers", "2"),
        *("--max-poll-records", "3", "--max-poll-interval", "10s", "--session-timeout", "9s", IN_PLACE),
    )
    assert found["assumed"] == {"executions": 3, "sends": 3, "copies": 1, "give_up": 4.1}
    assert found["polls"] == {
        "records": 3,
        "interval": 10.0,
        "needed": 12.3,
        "redeliveries": 1,
        "after_error": None,
        "suffices": False,
    }
    assert found["settings"]["session_timeout"] == 9.0
    assert found["settings"]["not_retryable"] == ["refused"]
    assert found["at_most"]["consumers"] == {"executions": 6, "sends": 12, "copies": 2}


def test_a_uri_that_acknowledges_nothing_makes_every_write_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert predicted(capsys, "mongodb://h/?w=0")["settings"]["write"] == "w0"
    assert predicted(capsys, "mongodb://h/?w=majority")["settings"]["write"] == "insert"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--retry", "fixed(soon,3)"], "retry policy 'fixed(soon,3)': expected a duration such as 12s"),
        (["--retry", "for ever"], "retry policy 'forever': expected fixed(INTERVAL,RETRIES)"),
        (["--write", "upsert"], "--write upsert: expected one of insert, insert-business-id, set,"),
        (["w=0", "--write", "inc"], "--write inc: with w=0 in the URI nothing is acknowledged"),
        (["--write", "w0", "--explicit-session"], "unacknowledged write in an explicit session"),
        (["--server", "sulks"], "--server sulks: expected one of hangs, hangs-interruptibly, refuses"),
        (["--not-retryable", "rain"], "--not-retryable rain: expected one of timeout, max-time, refused"),
        (["--socket-timeout", "long"], "--socket-timeout long: expected a duration such as 12s"),
        (["--max-time", "-1s"], "--max-time -1s: expected a duration"),
        (["--timeout", "0"], "timeoutMS 0 is no time limit"),
        (["timeoutMS=0"], "timeoutMS 0 is no time limit"),
        (["--max-poll-interval", "0s"], "max.poll.interval.ms: expected more than 0 s, found 0 s"),
        (["--session-timeout", "0"], "session.timeout.ms: expected more than 0 s, found 0 s"),
        (["--consumers", "0"], "--consumers"),
        (["--max-poll-records", "many"], "--max-poll-records"),
        (["mongodb://h/", "--uri", "mongodb://h/"], "say the same thing: leave one of them out"),
        (["http://h/"], "the URI cannot be used: expected mongodb://"),
        (
            ["socketTimeoutMS=soon"],
            "the driver does not accept the value of option socketTimeoutMS: expected it as in a URI",
        ),
        (["mongodb://h/?socketTimeout=1"], "the driver knows no option socketTimeout: leave it out"),
        (
            ["mongodb://h/?retryWrites=perhaps"],
            "the driver does not accept the value of option retryWrites: expected it as in a URI",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["predict", *arguments]) == exits.REFUSED
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("mongodb://h", {}),
        ("mongodb://h/app", {}),
        ("mongodb://h/?socketTimeoutMS=250", {"socketTimeoutMS": 0.25}),
        ("mongodb://h/?SOCKETTIMEOUTMS=0", {"socketTimeoutMS": None}),
        ("mongodb+srv://u:p%3F@h/?w=0&appName=x", {"w": 0}),
        ("?w=majority&socketTimeoutMS=1", {"w": "majority", "socketTimeoutMS": 0.001}),
        ("", {}),
    ],
)
def test_of_a_uri_the_options_that_are_wanted_are_read(text: str, options: dict[str, Any]) -> None:
    assert driver_options(text, ("socketTimeoutMS", "w")) == options


def test_a_uri_with_an_at_sign_behind_its_question_mark_is_not_taken_apart() -> None:
    with pytest.raises(Refused, match="the URI cannot be used"):
        driver_options(f"mongodb://u:p?{SECRET}=1@h/", ("w",))
