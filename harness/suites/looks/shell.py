"""Look: whether the Node driver sends a write again, as mongosh uses it; what it sends is counted by the proxy's tap.

mongosh is taken from the path, or from where `make mongosh` installs it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from clusters.errors import ClusterError
from clusters.local import OwnCluster
from clusters.wire.proxy.client import ProxyControl
from harness.suites.looks.server import DEADLINE, asking, fail_point
from harness.suites.question import LACKING
from harness.watchers.counters import wanted

DATABASE: Final = "shell"
INSTALLED: Final = Path(".cache/mongosh/node_modules/.bin/mongosh")
"""Below the directory of the sources."""
EXECUTIONS: Final = 2
SOCKET_TIMEOUT_MS: Final = 1000
BLOCK_MS: Final = 5000
"""What outlasts original and resend, both executions of them."""
TIMEOUT_MS: Final = 1000
SHELL_DEADLINE: Final = 90.0
"""Seconds for one script: the shell takes five to start, on a busy machine more."""

SETTINGS: Final[Mapping[str, tuple[str, int]]] = {
    "on": (f"socketTimeoutMS={SOCKET_TIMEOUT_MS}&retryWrites=true", EXECUTIONS),
    "off": (f"socketTimeoutMS={SOCKET_TIMEOUT_MS}&retryWrites=false", EXECUTIONS),
    "timeoutMS": (f"timeoutMS={TIMEOUT_MS}&retryWrites=true", 1),
}
"""Options of the shell's URI, and executions with them."""

SCRIPT: Final = """
const found = [];
for (let i = 1; i <= %(executions)d; i++) {
  const begun = Date.now();
  try { db.getSiblingDB("%(database)s")["%(collection)s"].insertOne({ attempt: i }); found.push({ error: null }); }
  catch (e) { found.push({ error: e.name }); }
  found[found.length - 1].ms = Date.now() - begun;
}
print(JSON.stringify({ version: version(), attempts: found }));
"""


def mongosh() -> str | None:
    """The path of the shell, None where there is none."""
    installed = Path(__file__).parents[3] / INSTALLED
    return shutil.which("mongosh") or (str(installed) if installed.exists() else None)


async def look(cluster: OwnCluster) -> Mapping[str, Any]:
    """By settings: executions that `failed`, `sends`, of each lsid and txnNumber (`groups`), insert.total (`counted`),
    `retried`, `documents`; or what is lacking."""
    shell = mongosh()
    if shell is None:
        return {LACKING: "no mongosh here: 'make mongosh' installs it where there is npm"}
    assert cluster.proxy is not None
    control = await ProxyControl.open(cluster.proxy.host)
    try:
        return {name: await _tried(cluster, control, shell, name) for name in SETTINGS}
    finally:
        control.close()


async def _tried(cluster: OwnCluster, control: ProxyControl, shell: str, name: str) -> dict[str, Any]:
    options, executions = SETTINGS[name]
    script = SCRIPT % {"executions": executions, "database": DATABASE, "collection": name}
    blocked = {
        "failCommands": ["insert"],
        "blockConnection": True,
        "blockTimeMS": BLOCK_MS,
        "namespace": f"{DATABASE}.{name}",
    }
    async with cluster.client() as client:
        await client[DATABASE].create_collection(name)
        before = await _counters(cluster)
        await control.tap(True, list(cluster.members), clear=True)
        async with fail_point(cluster, "failCommand", json.dumps(blocked)):
            printed = json.loads(await _output(shell, f"{cluster.uri}&{options}", script))
        # The fail point is off when all that it held has gone on; of the last of them the reply is still to come.
        after = await _settled(cluster, before, executions)
        transactions = await control.counts("transaction")
        commands = await control.counts("command")
        await control.tap(False)
        return {
            "version": printed["version"],
            "attempts": printed["attempts"],
            "failed": sum(one["error"] is not None for one in printed["attempts"]),
            "sends": sum(int(one["total"]) for one in commands if one["command"] == "insert"),
            "groups": [int(one["total"]) for one in transactions],
            "counted": after["metrics.commands.insert.total"] - before["metrics.commands.insert.total"],
            "retried": after["transactions.retriedCommandsCount"] - before["transactions.retriedCommandsCount"],
            "documents": await client[DATABASE][name].count_documents({}),
        }


async def _counters(cluster: OwnCluster) -> dict[str, int]:
    async with asking(cluster) as connection:
        return wanted(await connection.command("admin", {"serverStatus": 1}, deadline=DEADLINE))


async def _settled(cluster: OwnCluster, before: Mapping[str, int], least: int) -> dict[str, int]:
    """The counters, once they have moved and do not move any more."""
    last: dict[str, int] | None = None
    async with asyncio.timeout(DEADLINE):
        while True:
            now = await _counters(cluster)
            total = "metrics.commands.insert.total"
            if last is not None and now[total] == last[total] and now[total] - before[total] >= least:
                return now
            last = now
            await asyncio.sleep(0.3)  # nobody tells when the last has been counted


async def _output(shell: str, uri: str, script: str) -> str:
    """What the script prints last. Raises ClusterError where the shell fails or takes too long."""
    with tempfile.TemporaryDirectory(prefix="mongofault-shell-") as home:
        settings = Path(home, ".mongodb/mongosh/config")
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"enableTelemetry": False, "updateURL": ""}))
        process = await asyncio.create_subprocess_exec(
            shell, uri, "--quiet", "--norc", "--eval", script,
            env={**os.environ, "HOME": home},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(SHELL_DEADLINE):
                out, errors = await process.communicate()
        except TimeoutError:
            raise ClusterError(f"mongosh: no end within {SHELL_DEADLINE:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        raise ClusterError(f"mongosh ended with {process.returncode}: {errors.decode()[-300:]}")
    return out.decode().strip().splitlines()[-1]
