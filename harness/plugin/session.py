"""What the plugin holds for one pytest session: the background, its clusters, the records of its tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from clusters import uri as uris
from clusters.errors import ClusterError, Refused
from harness.plugin.background import Background
from harness.plugin.lent import Blocks, Cluster, Faults, StreamWatches
from harness.plugin.records import TestRecord
from harness.plugin.standing import Clusters, Unsuited
from harness.plugin.wanted import Wanted, wanted

B = TypeVar("B", bound=Blocks)

CLUSTER = "mongofault_cluster"
REPLICA_SET = "mongofault_replica_set"
RECORD = pytest.StashKey[TestRecord]()
"""On the item that has one."""


@dataclass(frozen=True, slots=True)
class Options:
    """Of the command line and of the project's settings."""

    defaults: Wanted
    keep: bool
    uri: str | None
    uri_file: Path | None
    runs: Path


class Session:
    """Made when the first test asks for something."""

    def __init__(self, options: Options) -> None:
        self._options = options
        uri = None
        if options.uri is not None or options.uri_file is not None:
            uri = uris.needed(options.uri, options.uri_file)
        self._clusters = Clusters(uri)
        self._background = Background()

    def cluster(self, request: pytest.FixtureRequest, *, sharded: bool) -> Iterator[Cluster]:
        """The body of a fixture that lends a cluster."""
        node = request.node
        markers = [(one.args, one.kwargs) for one in node.iter_markers("mongofault")]
        what = _said(lambda: wanted(self._options.defaults, reversed(markers)))
        what = what if sharded else replace(what, shards=0)
        user = node.nodeid or "the session"
        try:
            standing = _said(lambda: self._background.run(self._clusters.lent(what, user)))
        except Unsuited as error:
            pytest.skip(f"{error} ({user} wants {what})")
        try:
            yield Cluster(standing, self._background)
        finally:
            _said(lambda: self._background.run(self._clusters.back(standing, user)))

    def record(self, item: pytest.Item) -> Iterator[TestRecord]:
        """The body of the fixture that keeps the history of a test."""
        one = item.stash[RECORD] = _said(lambda: TestRecord(self._options.runs, item.name))
        try:
            yield one
        finally:
            one.end()

    def faults(self, request: pytest.FixtureRequest, record: TestRecord) -> Iterator[Faults]:
        clusters = _clusters(request)
        made = Faults(self._background, record.history, clusters, _seen(record))
        yield from self._left(made)
        for one in clusters:
            # One that does not become whole is replaced when it is given back.
            with suppress(ClusterError):
                self._background.run(one.recovered(record.history))

    def watches(self, request: pytest.FixtureRequest, record: TestRecord) -> Iterator[StreamWatches]:
        made = StreamWatches(self._background, record.history, _clusters(request), _seen(record))
        yield from self._left(made)

    def close(self) -> tuple[list[str], list[str]]:
        """Everything down, or kept: sentences on those kept, and on those that had to be replaced meanwhile."""
        try:
            kept = self._background.run(self._clusters.close(keep=self._options.keep))
        except ClusterError as error:
            kept = [str(error)]
        self._background.close()
        return kept, self._clusters.replaced

    def _left(self, made: B) -> Iterator[B]:
        """Blocks that a test never left are left after it, the last one first."""
        try:
            yield made
        finally:
            for block in reversed(made.blocks):
                self._background.run(block.leave())


def _clusters(request: pytest.FixtureRequest) -> list[Cluster]:
    """Those that the test uses; the sharded one where it names none. Set up before what is done to them, so that they
    are given back after it."""
    names = [one for one in (CLUSTER, REPLICA_SET) if one in request.fixturenames] or [CLUSTER]
    return [cast(Cluster, request.getfixturevalue(one)) for one in names]


def _seen(record: TestRecord) -> Callable[[Cluster], None]:
    known: set[str] = set()

    def seen(cluster: Cluster) -> None:
        if cluster.name not in known:
            known.add(cluster.name)
            record.history.started(cluster.ground.cluster)

    return seen


def _said(act: Callable[[], Any]) -> Any:
    """What it comes to; what a user can act on is said in one line, without a traceback."""
    try:
        return act()
    except Unsuited:
        raise
    except (Refused, ClusterError) as error:
        pytest.fail(f"mongofault: {error}", pytrace=False)
