"""Whatever ends the harness, kill -9 included: seconds later no container, network or volume is left, or paused."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aftermath import Place, healed_after_a_kill, wait_for
from clusters.compose import netns
from compose_parts import (
    endpoints,
    in_group,
    left_after,
    member,
    memory_limit,
    patience,
    process_state,
    run_name,
    shaped,
    things,
    up,
)
from harness import exits

pytestmark = [pytest.mark.live, pytest.mark.docker, pytest.mark.timeout(400)]

RUN = ("run", "update-lookup-stall", "--provider", "compose", "--streams", "2", "--hold", "30s", "--seed", "1")
NAME = f"crash-{secrets.token_hex(3)}"
UP_DEADLINE = 150.0


@pytest.fixture
def place(tmp_path: Path, docker_image: str) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    one.end()
    if one.left():
        # Of a test that failed the guardian was ended too.
        one.run("heal")
        one.end()


def test_killed_during_the_hold_nothing_is_left_of_the_run_s_own_cluster(place: Place, docker_image: str) -> None:
    process = place.start(*RUN)
    wait_for(["phase hold"], process, UP_DEADLINE)
    name = run_name(place)
    assert in_group(member(name, "shard0-2"))
    soon = patience(docker_image)
    process.kill()
    process.communicate()
    assert left_after(place, name, soon) == []
    assert "nothing to heal" in place.run("heal").stdout


@pytest.mark.parametrize("moment", range(2))
def test_killed_while_containers_are_made_nothing_is_left(place: Place, moment: int, docker_image: str) -> None:
    soon = patience(docker_image)
    process = place.start(*RUN)
    wait_for(["phase bring-up"], process, UP_DEADLINE)
    name = run_name(place)
    # From before Compose begins to when the sets are initiated.
    time.sleep(random.Random().uniform(0, 4))
    process.kill()
    process.communicate()
    assert left_after(place, name, soon) == []
    assert "nothing to heal" in place.run("heal").stdout


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, docker_image: str) -> Iterator[Place]:
    """A cluster of containers that outlives whoever breaks it."""
    one = Place(tmp_path_factory.mktemp("kept"))
    try:
        up(one, NAME, "--replica-set", "--image", docker_image)
        yield one
        assert one.run("down", NAME).returncode == exits.AS_EXPECTED
        assert left_after(one, NAME, 1.0) == []
    finally:
        one.run("down", "--all")
        one.end()


BROKEN: dict[str, Callable[[dict[str, Any]], bool]] = {
    "freeze": in_group,
    "freeze --fault-option how=signal": lambda one: process_state(one) == "T",
    "kill": lambda one: not one["State"]["Running"],
    "isolate": lambda one: not endpoints(one),
    "memory-limit": lambda one: memory_limit(one) is not None,
    "partition": lambda one: any("mongofault-" in line for line in netns.rules(one["State"]["Pid"])),
    "bandwidth": lambda one: bool(shaped(one)),
}
"""What is so while the fault acts, by the kernel's word or the engine's."""
BY_ROOT = ("partition", "bandwidth")


@pytest.mark.parametrize("form", BROKEN)
def test_killed_during_a_fault_the_container_is_as_it_was(kept: Place, form: str, docker_image: str) -> None:
    if form in BY_ROOT and (reason := netns.lacking(["tc", "ip", "iptables-restore"])):
        pytest.skip(reason)
    before, broken = member(NAME, "rs0-1"), BROKEN[form]
    assert not broken(before)
    process = kept.start("fault", *form.split(), "--on", "rs0-1", "--cluster", NAME, "--hold", "60s")
    wait_for(["held for"], process, UP_DEADLINE)
    assert broken(member(NAME, "rs0-1"))
    soon = patience(docker_image)
    process.kill()
    process.communicate()
    end = time.monotonic() + soon
    while broken(member(NAME, "rs0-1")):
        assert time.monotonic() < end, f"not healed within {soon:g} s"
        time.sleep(0.05)
    healed_after_a_kill(kept, NAME)
    after = member(NAME, "rs0-1")
    assert after["State"]["Running"]
    assert endpoints(after) == endpoints(before)
    assert len([one for one in things(NAME) if one.startswith("container")]) == 3
