"""What a rule means, and that it says the same after its way over the wire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bson_values import repeatedly
from clusters.wire.message import decode, encode_document
from clusters.wire.proxy.errors import Refusal
from clusters.wire.proxy.rules import Direction, Kind, Rule, parse
from clusters.wire.proxy.source import Source

LINKS = ("a", "b")
PEERS = ("rs0-0", "rs0-1")
DRIVER = Source("driver", "shop", "PyMongo|c")


def some(names: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(names), unique=True).map(tuple)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Any rule that contradicts itself in nothing."""
    fields: dict[str, Any] = {
        "kind": draw(st.sampled_from(Kind)),
        "to": draw(some(LINKS)),
        "source": draw(some((*PEERS, "router", "driver", "app:shop"))),
        "commands": draw(some(("find", "isMaster"))),
        "namespace": draw(st.sampled_from(("", "shop", "shop.orders"))),
        "direction": draw(st.sampled_from(Direction)),
        "ms": draw(st.floats(0, 1e6)),
        "jitter_ms": draw(st.floats(0, 1e6)),
        "seed": draw(st.integers(-(2**63), 2**63 - 1)),
        "bytes_per_second": draw(st.floats(0, 1e9)),
    }
    while True:
        try:
            return Rule(**fields)
        except Refusal as refusal:
            # Take away what the kind cannot have, give it what it needs.
            said = str(refusal)
            if "needs" in said:
                fields |= {"ms": 1.0} if "ms" in said.split()[3] else {"bytes_per_second": 1.0}
            elif "direction" in said:
                fields["direction"] = Direction.BOTH
            elif "commands" in said:
                fields |= {"commands": (), "namespace": ""}
            else:
                fields[{"ms": "ms", "jitterMs": "jitter_ms"}.get(said.split()[-1], "bytes_per_second")] = 0.0


@repeatedly
@given(rules())
def test_a_rule_says_the_same_after_its_way_over_the_wire(rule: Rule) -> None:
    assert parse(decode(encode_document(rule.document())), links=LINKS, peers=PEERS) == rule


@pytest.mark.parametrize(
    ("source", "who", "meant"),
    [
        ((), None, True),
        ((), DRIVER, True),
        (("driver",), DRIVER, True),
        (("app:shop",), DRIVER, True),
        (("app:shop", "router"), Source("router"), True),
        (("rs0-0",), Source("rs0-0", "OplogFetcher"), True),
        (("app:OplogFetcher",), Source("rs0-0", "OplogFetcher"), True),
        (("driver",), None, False),
        (("driver",), Source("rs0-0"), False),
        (("driver",), Source("unknown"), False),
        (("app:sho",), DRIVER, False),
        (("shop",), DRIVER, False),
    ],
)
def test_a_source_is_a_name_or_an_application(source: tuple[str, ...], who: Source | None, meant: bool) -> None:
    assert Rule(Kind.CUT, source=source).from_source(who) is meant


@pytest.mark.parametrize(
    ("commands", "namespace", "meant"),
    [
        ((), "", True),
        (("find",), "", True),
        (("getMore", "find"), "shop.orders", True),
        ((), "shop", True),
        ((), "shop.orders", True),
        (("Find",), "", False),
        ((), "shop.order", False),
        ((), "sho", False),
        (("find",), "other", False),
        (("insert",), "shop", False),
    ],
)
def test_a_message_is_meant_by_command_and_namespace(commands: tuple[str, ...], namespace: str, meant: bool) -> None:
    rule = Rule(Kind.SWALLOW, commands=commands, namespace=namespace)
    assert rule.on_message("find", "shop.orders") is meant


def test_a_database_means_also_what_names_no_collection() -> None:
    assert Rule(Kind.SWALLOW, namespace="shop").on_message("dbStats", "shop")
    assert not Rule(Kind.SWALLOW, namespace="shop.orders").on_message("dbStats", "shop")
