"""The Compose files under compose/: what the renderer makes of the topologies, to the letter. No engine is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from clusters.binaries import Binary
from clusters.compose import files, image, render
from clusters.errors import Refused
from clusters.topology import sharded_cluster, single_replica_set
from harness import cli, exits

CHECKED_IN: Final = Path(__file__).parent.parent / "compose"


def test_what_is_checked_in_is_what_is_rendered() -> None:
    rendered = files.rendered()
    assert {path.name for path in CHECKED_IN.glob("*.yml")} == set(rendered)
    for name, text in rendered.items():
        assert (CHECKED_IN / name).read_text() == text, f"compose/{name}: run mongofault compose render"


def test_the_command_renders_them(tmp_path: Path) -> None:
    assert cli.run(["compose", "render", "--directory", str(tmp_path)]) == exits.AS_EXPECTED
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files.rendered()


@pytest.mark.parametrize("name", files.rendered())
def test_nothing_is_in_the_files_that_compose_1_29_rejects(name: str) -> None:
    document = yaml.safe_load(files.rendered()[name])
    assert set(document) <= {"services", "networks", "volumes", "secrets"}
    for service in document["services"].values():
        assert "start_interval" not in service.get("healthcheck", {})
        assert "configs" not in service


def test_every_member_of_a_topology_is_a_service_with_a_volume_and_a_published_port() -> None:
    topology = sharded_cluster(2, 3, config_members=3, router_host=False)
    document = render.compose(topology)
    members = [spec.name for spec in topology.members()]
    assert [*document["services"]] == [*members, "router-0", "router-1"]
    assert [*document["volumes"]] == members
    for name in members:
        assert document["services"][name]["volumes"] == [f"{name}:/data/db"]
    for name, service in document["services"].items():
        assert service["ports"] == [f"127.0.0.1:${{PORT_{name.upper().replace('-', '_')}:-}}:27017"]


def test_members_are_called_by_their_host_names_behind_routers_and_else_by_addresses() -> None:
    document = render.compose(sharded_cluster(1, 2, router_host=False))
    assert _hosts(document, "shard0-0") == ["shard0-0:27017", "shard0-1:27017"]
    alone = render.compose(single_replica_set(2))
    assert _hosts(alone, "rs0-0") == ["${MONGO_PREFIX:-172.30.77}.11:27017", "${MONGO_PREFIX:-172.30.77}.12:27017"]
    addresses = [one["networks"]["default"]["ipv4_address"] for one in alone["services"].values()]
    assert [f"{address}:27017" for address in addresses] == _hosts(alone, "rs0-0")


def test_clusters_with_a_name_have_no_host_name_in_common() -> None:
    topology = sharded_cluster(1, 2, router_host=False)
    one, other = (render.compose(topology, name=name, token=f"of-{name}", routers=1) for name in ("one", "other"))
    assert _hosts(one, "shard0-0") == ["shard0-0.one:27017", "shard0-1.one:27017"]
    assert not {*_aliases(one)} & {*_aliases(other)}
    assert {*_aliases(one)} == {"config-0.one", "shard0-0.one", "shard0-1.one", "router.one"}
    for thing in [*one["services"].values(), *one["networks"].values(), *one["volumes"].values()]:
        assert thing["labels"].items() >= {("mongofault.cluster", "one"), ("mongofault.token", "of-one")}


def test_where_a_proxy_stands_before_the_members_nobody_is_told_of_their_own_addresses() -> None:
    topology = sharded_cluster(1, 2, router_host=False)
    known = {spec.name: f"10.160.7.1:{20_000 + index}" for index, spec in enumerate(topology.members())}
    document = render.compose(topology, name="one", routers=1, prefix="10.160.7", known=known)
    assert _hosts(document, "shard0-0") == ["10.160.7.1:20001", "10.160.7.1:20002"]
    assert "config/10.160.7.1:20000" in document["services"]["router"]["command"]
    assert document["services"]["shard0-0"]["networks"]["default"]["ipv4_address"] == "10.160.7.12"


def test_compose_fills_in_nothing_of_a_command_line() -> None:
    topology = single_replica_set(1).with_member("rs0-0", parameters={"one": "${HOME}"})
    assert "one=$${HOME}" in render.compose(topology)["services"]["rs0-0"]["command"]


def test_the_stand_in_s_mongod_takes_the_place_of_routers() -> None:
    services = render.compose(sharded_cluster(1, 1))["services"]
    assert [name for name in services if name.startswith("router")] == ["router-0"]
    assert "--shardsvr" in services["router-0"]["command"]


def test_an_image_with_a_shell_asks_for_a_static_busybox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match=r"no busybox here: install busybox-static .*, or build with --no-shell"):
        image.build(Binary(Path("/bin/true"), "6.0.5", "", "PATH"), None)


def test_an_image_is_of_one_version() -> None:
    mongod, mongos = (Binary(Path("/bin/true"), version, "", "PATH") for version in ("6.0.5", "8.0.1"))
    with pytest.raises(Refused, match=r"mongos is 8\.0\.1 and mongod 6\.0\.5"):
        image.build(mongod, mongos)


def test_without_an_engine_an_image_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert cli.run(["image", "build", "--no-shell"]) == exits.REFUSED
    said = capsys.readouterr().err
    assert "no container engine" in said
    assert said.count("\n") == 1


def test_the_first_member_of_each_set_says_what_the_set_is_made_of() -> None:
    topology = sharded_cluster(2, 3, router_host=False)
    services = render.compose(topology)["services"]
    labelled = {name for name, service in services.items() if render.SET in service["labels"]}
    assert labelled == {one.members[0].name for one in topology.sets()}
    assert json.loads(services["config-0"]["labels"][render.SET])["configsvr"] is True


def _hosts(document: dict[str, Any], first: str) -> list[str]:
    """What the members of a set are called by the set, as the label of its first member says."""
    members = json.loads(document["services"][first]["labels"][render.SET])["members"]
    return [member["host"] for member in members]


def _aliases(document: dict[str, Any]) -> list[str]:
    return [alias for one in document["services"].values() for alias in one["networks"]["default"]["aliases"]]
