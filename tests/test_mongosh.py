"""MongoDB's own shell against the router: what tests/mongosh.js does there must come out as behind a mongos.

mongosh is installed from npm by `make mongosh`, in a pinned version; where it is not there the tests say so and skip.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.local import LocalCluster

pytestmark = [pytest.mark.live, pytest.mark.slow]

HERE: Final = Path(__file__).parent
SHELL: Final = HERE.parent / ".cache/mongosh/node_modules/.bin/mongosh"
DEADLINE: Final = 120.0
"""Seconds for one run of the shell: it takes ten on an idle machine, half of them to start."""

EXPECTED: Final[dict[str, Any]] = {
    "hello": lambda it: it["msg"] == "isdbgrid" and it["isWritablePrimary"],
    "enable": lambda it: it["ok"] == 1,
    "shard": lambda it: it["collectionsharded"] == "shell.orders",
    "split": lambda it: it["ok"] == 1,
    "owner": lambda it: it in ("shard0", "shard1"),
    "move": lambda it: it["ok"] == 1,
    "insertOne": {"acknowledged": True, "insertedId": 1},
    "insertMany": {"acknowledged": True, "insertedIds": {"0": 2, "1": 3, "2": 4}},
    "duplicate": {"code": 11000, "inserted": 1, "failed": 1},
    "find": [{"n": 5}, {"n": 4}, {"n": 3}],
    "batches": 5,
    "aggregate": [{"_id": None, "sum": 15}],
    "updateOne": 1,
    "updateMany": 3,
    "replaceOne": 1,
    "upsert": 1,
    "findOneAndUpdate": 0,
    "deleteOne": 1,
    "bulkWrite": lambda it: (it["insertedCount"], it["modifiedCount"], it["deletedCount"]) == (1, 1, 1),
    "count": [5, 5],
    "distinct": [-1, 2, 3, 4, 5],
    "createIndex": ["n_1", ["_id_", "region_1", "n_1"]],
    "listings": [["orders"], True],
    "stats": [True, 5],
    "distribution": lambda it: len(it) == 3 and it[-1] == "Totals",
    "watch": lambda it: it["operationType"] == "update" and it["fullDocument"]["seen"] == 1,
    "watchDatabase": lambda it: it["operationType"] == "update" and "fullDocument" not in it,
    "watchCluster": lambda it: it["operationType"] == "update" and it["fullDocument"]["region"] == -1,
    "explain": "SINGLE_SHARD",
    "explainAggregate": lambda it: sorted(it) == ["shard0", "shard1"],
    "dbStats": [2, 5],  # a mongos too adds up what each shard counts
    "dataSize": [True, True, True],
    "validate": True,
    "balancer": [False, "off"],
    "startBalancer": [1, True],
    "stopBalancer": [1, False],
    "balancerStatus": True,
    "zones": ["shell"],
    "rename": 1,
    "view": True,
    "logs": True,
    "hostInfo": "number",
    "status": lambda it: (
        {one["_id"] for one in it["shards"]} == {"shard0", "shard1"}
        and {"shell", "config"} <= {one["database"]["_id"] for one in it["databases"]}
    ),
    "listShards": ["shard0", "shard1"],
    "getParameter": 1,
    "serverStatus": lambda it: it.startswith("6.0"),
    "currentOp": True,
    "connPoolStats": 1,
    "buildInfo": lambda it: it.startswith("6.0"),
    "flushRouterConfig": 1,
    "session": 22,
    "drop": True,
    "dropDatabase": "shell",
}
"""Step of mongosh.js -> what it gives, or whether it is what it should be."""


def mongosh(cluster: LocalCluster, home: Path, *arguments: str | Path) -> str:
    """What the shell prints; it keeps its log and its settings under `home`."""
    if not SHELL.exists():
        pytest.skip(f"no mongosh in {SHELL.parent}; `make mongosh` installs it where there is npm")
    settings = home / ".mongodb/mongosh/config"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"enableTelemetry": False, "updateURL": ""}))
    ended = subprocess.run(
        [SHELL, cluster.uri, "--quiet", "--norc", *arguments],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def results(sharded: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    printed = mongosh(sharded, tmp_path_factory.mktemp("home"), "--file", HERE / "mongosh.js")
    found: dict[str, Any] = json.loads(printed)
    return found


@pytest.mark.parametrize("step", EXPECTED)
def test_a_step_of_the_shell_comes_out_as_behind_a_mongos(results: dict[str, Any], step: str) -> None:
    expected, found = EXPECTED[step], results[step]
    assert not (isinstance(found, dict) and "error" in found), found
    assert expected(found) if callable(expected) else found == expected, found


def test_every_step_of_the_shell_has_an_expectation(results: dict[str, Any]) -> None:
    assert set(results) == set(EXPECTED)


def test_the_shell_prints_what_it_evaluates_as_json(sharded: LocalCluster, tmp_path: Path) -> None:
    printed = mongosh(sharded, tmp_path, "--json=relaxed", "--eval", "db.adminCommand({ isdbgrid: 1 }).isdbgrid")
    assert json.loads(printed) == 1
