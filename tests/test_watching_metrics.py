"""What Prometheus is told, read by its own parser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from clusters import ports
from clusters.errors import Refused
from harness.watching.judging import Judge
from harness.watching.metrics import ADDRESS, Metrics, served
from harness.watching.reading import read
from watching_parts import MEMBERS, getmore, idle, lookup, ns, update


def told(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    registry = CollectorRegistry()
    registry.register(metrics)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def fed() -> Metrics:
    metrics, judge = Metrics(), Judge(MEMBERS, past=3.0, every=1.0)
    for at in (0.0, 1.0):
        readings = {
            "shard0-0": read("shard0-0", [update(1), update(2), update(4)], ns(at)),
            "shard0-1": read("shard0-1", [getmore(1, 9 + at), idle(2, documents=5 + int(at))], ns(at)),
            "shard0-2": read("shard0-2", [lookup(1, 8 + at)], ns(at)),
        }
        metrics.take(*judge.judge(readings, {}, list(readings), ns(at)))
    return metrics


def test_the_metrics_are_those_of_the_last_look_and_alarms_are_counted_once() -> None:
    found = told(fed())
    assert found["mongofault_streams", (("state", "silent"),)] == 1
    assert found["mongofault_streams", (("state", "delivering"),)] == 1
    assert found["mongofault_stream_silent_seconds", ()] == 10
    assert found["mongofault_hung_getmores", (("member", "shard0-1"),)] == 1
    assert found["mongofault_hung_getmores", (("member", "shard0-0"),)] == 0
    assert found["mongofault_write_copies", ()] == 3
    assert found["mongofault_alarms_total", (("kind", "silent_stream"),)] == 1
    assert found["mongofault_alarms_total", (("kind", "write_copies"),)] == 1
    assert found["mongofault_members", (("state", "seen"),)] == 3
    assert [labels for name, labels in found if name == "mongofault_build_info"]


def test_no_label_names_an_operation_or_a_session() -> None:
    labels = {(name, value) for (_, labels) in told(fed()) for name, value in labels}
    assert {name for name, _ in labels} == {"state", "member", "kind", "version"}
    assert not [value for name, value in labels if name != "version" and re.search(r"\b\d{3,}|[0-9a-f]{8}", value)]


def test_before_the_first_look_every_name_is_there() -> None:
    assert {name for name, _ in told(Metrics())} >= {
        "mongofault_streams", "mongofault_stream_silent_seconds", "mongofault_write_copies", "mongofault_alarms_total",
        "mongofault_build_info", "mongofault_members",
    }  # fmt: skip


def test_a_port_that_is_taken_is_refused_in_one_line() -> None:
    (port,) = ports.choose(1)
    ports.give_back([port])
    refused = pytest.raises(Refused, match=rf"--metrics {port}: cannot listen on {ADDRESS}")
    with served(Metrics(), port), refused, served(Metrics(), port):
        raise AssertionError("the port is taken")


def test_the_example_rules_ask_for_metrics_that_there_are() -> None:
    page = (Path(__file__).parent.parent / "docs/watch.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (group,) = yaml.safe_load(block)["groups"]
    asked = {name for rule in group["rules"] for name in re.findall(r"mongofault_\w+", rule["expr"])}
    assert asked
    assert asked <= {name for name, _ in told(fed())}
