"""mtools' mlaunch against the router: what it asks of a mongos, by its own functions, in a process with its own driver.

Its log tools are not here: mtools 1.7.2 reads no structured log, which every server since 4.4 writes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.local import LocalCluster

pytestmark = [pytest.mark.live, pytest.mark.slow]

DEADLINE: Final = 120.0
SCRIPT: Final = """
import json, sys
from bson.son import SON
from mtools.mlaunch.mlaunch import MongoConnection, shutdown_host, wait_for_host

port = int(sys.argv[1])
told = {"reached": wait_for_host(port, interval=0.1, timeout=20)}
con = MongoConnection("localhost:%i" % port, directConnection=True)
told["shards"] = con["config"]["shards"].count_documents({})
told["msg"] = [con.admin.command(name)["msg"] for name in ("isMaster", "hello")]
listed = con.admin.command("listShards")["shards"]
told["listShards"] = sorted(one["_id"] for one in listed)
again = SON([("addShard", listed[0]["host"]), ("name", listed[0]["_id"])])
told["added"] = con["admin"].command(again)["shardAdded"] == listed[0]["_id"]
shutdown_host(port)
told["after shutdown"] = wait_for_host(port, interval=0.1, timeout=20)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that has mtools: from PyPI, into an environment of its own."""
    environment = tmp_path_factory.mktemp("mtools")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=DEADLINE)
    # mlaunch 1.7 names its dependencies in an extra; the driver it is used with must know the server.
    installed = subprocess.run(
        [environment / "bin/pip", "install", "-q", "--disable-pip-version-check", "setuptools", "mtools[mlaunch]"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    if installed.returncode:
        pytest.skip(f"mtools could not be installed: {installed.stderr[-200:]}")
    return environment / "bin/python"


def test_mlaunch_finds_a_router_with_its_shards_and_cannot_shut_it_down(python: Path, sharded: LocalCluster) -> None:
    assert sharded.router is not None
    port = sharded.router.rpartition(":")[2]
    done = subprocess.run([python, "-c", SCRIPT, port], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told == {
        "reached": True,
        "shards": 2,
        "msg": ["isdbgrid", "isdbgrid"],
        "listShards": ["shard0", "shard1"],
        "added": True,
        "after shutdown": True,
    }
