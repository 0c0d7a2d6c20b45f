"""What `stale-shard` cannot do with its settings, or on a server, is one line and exit 3; nothing is started for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.cluster import ServerInfo
from clusters.errors import Refused
from harness.scenarios import stale_cases
from harness.scenarios.parameters import build
from harness.scenarios.stale_shard import SETTING, StaleParameters, StaleShard
from refusals import refused_in_one_line

pytestmark = pytest.mark.usefixtures("nothing_given")

RUN = ["run", "stale-shard"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--case", "earthquake"], "--case earthquake: expected one of isolation, dummy-error, "),
        (["--case", "dummy-error", "--via", "move"], "--via is the case isolation's; leave it out"),
        (["--case", "move-primary", "--hold-by", "freeze-config"], "--hold-by is the case isolation's; leave it out"),
        (["--via", "merge"], "--via merge: input should be 'split' or 'move'"),
        (["--hold-by", "hope"], "--hold-by hope: input should be 'fail-point', "),
        (["--hold-by", "kill-config", "--hold", "15s"], "--hold 15 s: routers give up after about 15 s"),
        (["--hold-by", "fail-command", "--hold", "17s"], "fail-command blocks 16 s at most, less what comes before"),
        (["--hold", "400ms"], "--hold 0.4 s: must be longer than --within, 0.5 s"),
        (["--shards", "4"], "--shards 4: input should be greater than or equal to 5"),
        (["--driver-option", "w=1"], "operations are sent without a driver: leave --driver and --driver-option out"),
        (["--expect", "stalled"], "--expect stalled: expected one of isolated, collection blocked"),
        (["--cluster", "nowhere"], "there is no cluster named 'nowhere'"),
        (["--only", "split"], "--findings and --only are the suite's: give --suite cases as well"),
        (["--suite", "questions"], "--suite questions: expected cases"),
        (["--suite", "cases", "--only", "nothing"], "--only nothing: expected one of split, split-frozen-3, "),
        (["--suite", "cases", "--only", "split"], "--only: some cases are no finding: say with --findings"),
        (
            ["--suite", "cases", "--server-version", "6.0.5"],
            "--server-version: the finding is of the servers there are",
        ),
        (["--suite", "cases", "--hold", "3s"], "--suite cases asks with settings of its own: leave out --hold"),
    ],
)
def test_one_line_says_what_was_expected(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused_in_one_line([*RUN, *arguments], said, tmp_path, capsys)


@pytest.mark.parametrize(
    ("version", "why"),
    [("5.0.4", "shards of 5.0.4 run no router code"), ("7.0.1", f"{SETTING} is of servers before 6.1")],
)
def test_a_server_without_such_routers_is_said_to_be_not_applicable(version: str, why: str) -> None:
    with pytest.raises(Refused, match=f"^not applicable: .*{why}"):
        StaleShard(build(StaleParameters, {})).expected(ServerInfo(version, "", "mongos"))


def test_each_version_of_6_0_is_expected_to_isolate() -> None:
    assert StaleShard(build(StaleParameters, {})).expected(ServerInfo("6.0.27", "", "stand-in")) == {"isolated"}


@pytest.mark.parametrize(
    ("version", "refreshes", "stale"), [("6.0.5", 1, 0), ("6.0.24-rc0", 2, 1), ("6.0.24", 2, 1), ("6.0.27", 2, 1)]
)
def test_later_servers_of_6_0_are_expected_to_count_once_more(version: str, refreshes: int, stale: int) -> None:
    fine = stale_cases.of("isolation", "split", "fail-point", 1.0).expected["fine"].on(version)
    assert fine.counters[stale_cases.INCREMENTAL] == (refreshes, refreshes)
    coarse = stale_cases.of("isolation", "split", "fail-point", 1.0).expected["coarse"].on(version)
    assert coarse.counters[stale_cases.INCREMENTAL] == (1, 1)
    moved = stale_cases.of("move-primary", "split", "fail-point", 1.0).expected["coarse"].on(version)
    assert moved.counters[stale_cases.STALE] == (stale, stale)


def test_the_routers_of_its_own_cluster_differ_in_nothing_but_their_setting() -> None:
    shards = StaleShard(build(StaleParameters, {})).topology().shards
    fine, coarse = (dict(one.members[0].parameters) for one in shards[3:])
    assert (fine.pop(SETTING), coarse.pop(SETTING)) == ("true", "false")
    assert fine == coarse
    assert not any(one.members[0].parameters for one in shards[:3])
