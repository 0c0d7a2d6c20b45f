"""All links of the process, the rules in force on them, and the tap: what the control address acts on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from clusters.wire.proxy.book import Active
from clusters.wire.proxy.errors import Refusal
from clusters.wire.proxy.link import Link
from clusters.wire.proxy.rules import parse
from clusters.wire.proxy.tap import Tap

Address = tuple[str, int]


class Proxy:
    """`links` is name -> (listen, target), `peers` address -> name."""

    def __init__(self, links: Mapping[str, tuple[Address, Address]], peers: Mapping[str, str]) -> None:
        self.tap = Tap()
        self._peers = peers
        self._numbers = itertools.count(1)
        self._rule_numbers = itertools.count(1)
        self._rules: dict[str, Active] = {}
        self._links = {
            name: Link(name, listen, target, peers=peers, numbers=self._numbers, tap=self.tap)
            for name, (listen, target) in links.items()
        }

    async def start(self) -> None:
        """Raises OSError, which names no address: the caller knows it from `listening`."""
        for link in self._links.values():
            self.listening = link.listen
            await link.start()

    def close(self) -> None:
        for link in self._links.values():
            link.close()

    def add_rule(self, document: Mapping[str, Any]) -> str:
        """Put a rule in force; its id. The same rule under the same id a second time changes nothing."""
        fields = dict(document)
        name = fields.pop("id", None)
        if name is not None and (not isinstance(name, str) or not name):
            raise Refusal(14, f"expected proxyAddRule.id to be a string, found {name!r}")
        rule = parse(fields, links=self._links, peers=set(self._peers.values()))
        if name in self._rules:
            if self._rules[name].rule != rule:
                raise Refusal(2, f"a rule with id {name!r} is in force and says something else: remove it first")
            return str(name)
        if name is None:
            name = next(free for number in self._rule_numbers if (free := f"rule-{number}") not in self._rules)
        active = self._rules[name] = Active(name, rule, since=next(self._numbers))
        for link in self._on(active):
            link.add(active)
        return name

    def remove_rule(self, name: str) -> bool:
        """Heal; False where no such rule is in force."""
        active = self._rules.pop(name, None)
        if active is None:
            return False
        active.removed = True
        for link in self._on(active):
            link.remove(active)
        return True

    def _on(self, active: Active) -> list[Link]:
        return [link for link in self._links.values() if active.rule.on_link(link.name)]

    def switch_tap(self, on: bool, names: Iterable[str]) -> None:
        """On these links; on all where none is named."""
        chosen = []
        for name in list(names) or list(self._links):
            if name not in self._links:
                raise Refusal(2, f"proxyTap.links names {name!r}, expected one of {', '.join(self._links)}")
            chosen.append(self._links[name])
        for link in chosen:
            link.switch_tap(on)

    def status(self) -> dict[str, Any]:
        return {
            "links": [link.status() for link in self._links.values()],
            "rules": [
                active.status(sum(active in pair.rules for link in self._on(active) for pair in link.pairs))
                for active in self._rules.values()
            ],
            "tap": {"messages": self.tap.messages, "dropped": self.tap.dropped},
        }
