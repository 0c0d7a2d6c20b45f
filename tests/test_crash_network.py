"""Faults in the network of a kept cluster, the harness killed with -9: the guardian takes the rules back, or `heal`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aftermath import Place, kept_cluster, kill_with_guardian, wait_for
from clusters.wire.proxy.client import ProxyControl
from harness import exits

pytestmark = [pytest.mark.live, pytest.mark.slow]

HEALED = 5.0
FORMS = ("latency", "bandwidth", "blackhole", "swallow", "half-open", "cut", "refuse", "partition")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with kept_cluster(tmp_path_factory.mktemp("network"), "set", "--replica-set", "--proxied", gone_within=1.0) as one:
        yield one


def rules(place: Place) -> list[dict[str, Any]]:
    """In force at the proxy, by its own word."""
    record = json.loads((place.root / "state/ledgers/set/cluster.json").read_text())

    async def asked() -> list[dict[str, Any]]:
        control = await ProxyControl.open(record["listens"]["proxy"])
        try:
            return list((await control.status())["rules"])
        finally:
            control.close()

    return asyncio.run(asked())


def guardian(place: Place) -> int:
    (found,) = (pid for pid in place.processes() if b"clusters.guard" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return found


@pytest.mark.parametrize("form", FORMS)
def test_killed_while_it_is_held_the_guardian_takes_the_rules_back(place: Place, form: str) -> None:
    process = place.start("fault", form, "--cluster", "set", "--on", "rs0/secondary", "--hold", "60s")
    wait_for(["held for"], process, 30)
    assert rules(place) != []
    process.kill()
    process.communicate()
    end = time.monotonic() + HEALED
    while rules(place) and time.monotonic() < end:
        time.sleep(0.05)
    assert rules(place) == []


@pytest.mark.parametrize("form", ["blackhole", "partition"])
def test_with_the_guardian_killed_as_well_heal_by_hand_does(place: Place, form: str) -> None:
    process = place.start("fault", form, "--cluster", "set", "--on", "rs0/secondary", "--hold", "60s")
    wait_for(["held for"], process, 30)
    kill_with_guardian(process, guardian(place))
    assert rules(place) != []
    done = place.run("heal")
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    assert f"rule '{form}" in done.stdout
    assert rules(place) == []
