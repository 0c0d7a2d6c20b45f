"""Bad input gets one line and exit code 3, and nothing is started for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, exits
from refusals import refused_in_one_line

pytestmark = pytest.mark.usefixtures("nothing_given")

RUN = ["run", "update-lookup-stall"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*RUN, "--fault", "earthquake"], "unknown fault 'earthquake': expected one of bandwidth, "),
        ([*RUN, "--fault", "terminate", "--fault-option", "how=now"], "how=now: terminate takes no options"),
        ([*RUN, "--fault", "pause-replication", "--fault-option", "how=x"], "takes how=rsSyncApplyStop|stopReplProd"),
        ([*RUN, "--fault", "none", "--release", "kill-op"], "there is no fault for --fault-option and --release"),
        ([*RUN, "--release", "wait"], "--release wait: input should be 'heal', 'kill-member' or 'kill-op'"),
        ([*RUN, "--target", "secondary", "--release", "kill-op"], "expected --target tag"),
        ([*RUN, "--streams", "0"], "--streams 0: input should be greater than or equal to 1"),
        ([*RUN, "--streams", "many"], "--streams many: input should be a valid integer"),
        ([*RUN, "--hold", "soon"], "--hold soon: expected a duration such as 12s"),
        ([*RUN, "--hold", "2s"], "--hold 2 s: must be longer than --threshold, 3 s"),
        ([*RUN, "--rate", "nan"], "--rate nan"),
        ([*RUN, "--members", "2"], "--members 2: at least 3 are needed"),
        ([*RUN, "--members", "150"], "MiB are available"),
        ([*RUN, "--cluster", "nowhere"], "there is no cluster named 'nowhere'"),
        ([*RUN, "--driver-option", "socketTimeoutMS"], "expected NAME=VALUE"),
        (["chaos", "--dry-run", "--driver-option", "socketTimeoutMS"], "expected NAME=VALUE"),
        ([*RUN, "--driver-option", "socketTimeoutMS=soon"], "socketTimeoutMS"),
        ([*RUN, "--driver-option", "nonsense=1"], "nonsense"),
        ([*RUN, "--expect", "fireworks"], "--expect fireworks: expected one of stalled"),
        ([*RUN, "--target", "nobody"], "node spec 'nobody'"),
        ([*RUN, "--config", "absent.yml"], "--config absent.yml: No such file"),
        ([*RUN, "--cluster", "mine", "--shards", "3"], "--shards shapes a cluster of the run's own"),
        ([*RUN, "--no-such-option"], "--no-such-option"),
        (["run", "no-such-scenario"], "no-such-scenario"),
        (["no-such-command"], "no-such-command"),
        (["check", "absent"], "absent is no record of a run"),
        (["attach"], "no URI: give one without a password, or put the URI into MONGODB_URI"),
        (["attach", "--uri-file", "absent"], "--uri-file absent: No such file"),
        (["attach", "http://somewhere/"], "the URI cannot be used: expected mongodb://"),
        (["attach", "mongodb://127.0.0.1:1/"], "cannot connect to 127.0.0.1:1"),
        (["adopt", "mongodb://127.0.0.1:1/"], "typed by a person: start it from a terminal"),
        (["release", "nowhere"], "there is no cluster named 'nowhere'"),
        ([*RUN, "--cluster", "mine", "--uri", "mongodb://h/"], "both say which cluster"),
        (["fault", "freeze", "--on", "one", "--cluster", "mine", "--uri-file", "x"], "both say which cluster"),
        (["compose", "render", "--directory", "nowhere"], "--directory nowhere: no such directory"),
        (["down", "nowhere"], "there is no cluster named 'nowhere'"),
        (["status", "nowhere"], "there is no cluster named 'nowhere'"),
        (["exec", "--name", "nowhere", "--", "true"], "there is no cluster named 'nowhere'"),
        (["fault", "earthquake", "--on", "any"], "unknown fault 'earthquake': expected one of bandwidth, "),
        (["fault", "freeze"], "--on"),
        (["fault", "freeze", "--on", "any", "--cluster", "nowhere"], "there is no cluster named 'nowhere'"),
        (["fault", "freeze", "--on", "any", "--hold", "soon"], "--hold soon: expected a duration such as 12s"),
        (["fault", "freeze", "--on", "any", "--hold", "0"], "--hold 0: expected more than 0 s"),
        (["fault", "freeze", "--on", "any", "--fault-option", "a=b"], "freeze takes how=auto|signal|pause"),
        (["up", "--shards", "0"], "--shards"),
        (["up", "--members", "150"], "MiB are available"),
        (["up", "--name", "no/slash"], "expected a name of letters"),
        (["up", "--tag", "shard9-0:a=b"], "there is no member 'shard9-0'"),
        (["up", "--priority", "shard0-1:nan"], "expected MEMBER:NUMBER"),
        (["up", "--members", "8", "--priority", "shard0-7:1"], "a member without a vote has priority 0"),
        (["up", "--tag", "shard0-1:$a=b"], "expected a key of letters"),
        (["up", "--provider", "nobody"], "--provider nobody: expected local, compose, auto"),
        (["up", "--image", "mongo:8.0"], "of no image; expected --provider compose"),
        ([*RUN, "--cluster", "mine", "--provider", "local"], "--provider shapes a cluster of the run's own"),
        (["up", "--tag", "plain"], "--tag plain: expected MEMBER:NAME=VALUE"),
        (["up", "--cache-gb", "inf"], "--cache-gb"),
        (["up", "--replica-set", "--shards", "3"], "--replica-set is one set without shards"),
        (["up", "--balancer", "maybe"], "expected on or off"),
    ],
)
def test_one_line_says_what_was_expected(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused_in_one_line(arguments, said, tmp_path, capsys)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("streamz: 4", "params.yml: unknown parameter 'streamz'; expected cluster, members"),
        ("{[", "params.yml: expected YAML; while parsing"),
        ("just words", "params.yml: expected a mapping such as 'streams: 4'"),
        ("streams: many", "--streams many: input should be a valid integer"),
        ("full-document: later", "--full-document later: input should be 'updateLookup' or 'default'"),
    ],
)
def test_a_file_of_parameters_that_cannot_be_used_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "params.yml").write_text(text)
    assert cli.run([*RUN, "--config", "params.yml"]) == exits.REFUSED
    assert said in capsys.readouterr().err


def test_without_a_command_the_help_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == exits.REFUSED
    shown = capsys.readouterr().out
    assert "Commands:\n" in shown
    assert "  doctor " in shown


def test_a_mongod_path_that_is_no_mongod_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    impostor = tmp_path / "mongod"
    impostor.write_text("#!/bin/sh\necho I am a teapot\n")
    impostor.chmod(0o755)
    monkeypatch.setenv("MONGODB_BINARIES", str(tmp_path))
    assert cli.run(["up"]) == exits.REFUSED
    assert "is no mongod: --version said 'I am a teapot'" in capsys.readouterr().err


def test_an_empty_directory_of_binaries_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MONGODB_BINARIES", str(tmp_path))
    assert cli.run(["up"]) == exits.REFUSED
    assert "holds no mongod" in capsys.readouterr().err
