"""mongofault for pytest: real MongoDB clusters as fixtures, faults and stream watches on them. See docs/pytest.md.

The face alone. What is behind it (`harness.plugin`, and with it drivers and all else) is imported for the first test
that asks for a fixture: a project that has the plugin and does not use it pays nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.histories import History
    from harness.plugin.lent import Cluster, Faults, StreamWatches
    from harness.plugin.records import TestRecord
    from harness.plugin.session import Session

_session: pytest.StashKey[Session] = pytest.StashKey()
_sentences: pytest.StashKey[list[str]] = pytest.StashKey()
"""What the session has to say at its end, of all its workers."""
OUTPUT = "mongofault"
"""Its name in what a worker gives to the process that distributes the tests."""

MARKER = (
    "mongofault(shards=2, members=3, version=None, proxied=False): the cluster that mongofault_cluster and "
    "mongofault_replica_set give"
)
INI = (
    ("mongofault_scope", "function", "scope of the cluster fixtures: function, class, module, package or session"),
    ("mongofault_shards", "2", "shards of mongofault_cluster; 0: a plain replica set"),
    ("mongofault_members", "3", "members of each shard, and of mongofault_replica_set"),
    ("mongofault_version", "", "server version, one that is installed"),
    ("mongofault_runs", "runs", "directory for the records of tests that fail, from the rootdir"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mongofault", "real MongoDB clusters, broken on purpose")
    group.addoption(
        "--mongofault-provider",
        choices=("local", "compose", "auto"),
        default="local",
        help="Who brings clusters up: processes of this machine (default), containers, or these where they can be.",
    )
    group.addoption(
        "--mongofault-keep", action="store_true", help="Leave the clusters up at the end; mongofault down removes them."
    )
    group.addoption(
        "--mongofault-uri",
        metavar="URI",
        help="All tests on this cluster of mongofault's (up, or adopt), by its URI without a password.",
    )
    group.addoption("--mongofault-uri-file", metavar="FILE", type=Path, help="The same, in a file that holds the URI.")
    for name, default, help in INI:
        parser.addini(name, help, default=default)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getini("mongofault_scope")


@pytest.fixture(scope=_scope)
def mongofault_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A sharded cluster, by the marker `mongofault` or the settings: shared by the session, found whole, empty."""
    yield from _of(request.config).cluster(request, sharded=True)


@pytest.fixture(scope=_scope)
def mongofault_replica_set(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The same, a plain replica set."""
    yield from _of(request.config).cluster(request, sharded=False)


@pytest.fixture
def _mongofault_record(request: pytest.FixtureRequest) -> Iterator[TestRecord]:
    yield from _of(request.config).record(request.node)


@pytest.fixture
def mongofault_history(_mongofault_record: TestRecord) -> History:
    """The history of the test: faults and watches are in it; what it writes and is delivered can be told to it."""
    return _mongofault_record.history


@pytest.fixture
def mongofault_fault(request: pytest.FixtureRequest, _mongofault_record: TestRecord) -> Iterator[Faults]:
    """`with mongofault_fault("freeze", on="secondary") as proofs`, or `async with`: proven, and healed at the end."""
    yield from _of(request.config).faults(request, _mongofault_record)


@pytest.fixture
def mongofault_stream_watch(request: pytest.FixtureRequest, _mongofault_record: TestRecord) -> Iterator[StreamWatches]:
    """`with mongofault_stream_watch() as watch`, or `async with`: which change streams fall silent, and why."""
    yield from _of(request.config).watches(request, _mongofault_record)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.failed and _session in item.config.stash:
        from harness.plugin.session import RECORD

        record = item.stash.get(RECORD, None)
        if record is not None and report.when != "teardown":
            why = call.excinfo.exconly() if call.excinfo is not None else ""
            report.sections.append(("mongofault", record.failed(why)))
            for properties in (report.user_properties, item.user_properties):
                properties.append(("mongofault_report", str(record.link)))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if _session not in config.stash:
        return
    kept, replaced = config.stash[_session].close()
    del config.stash[_session]
    told = [*kept, *replaced]
    output = getattr(config, "workeroutput", None)
    if output is None:
        config.stash.setdefault(_sentences, []).extend(told)
    else:
        output[OUTPUT] = told


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told = getattr(node, "workeroutput", {}).get(OUTPUT, [])
    node.config.stash.setdefault(_sentences, []).extend(told)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if told := config.stash.get(_sentences, []):
        terminalreporter.section("mongofault")
        for sentence in told:
            terminalreporter.line(sentence)


def _of(config: pytest.Config) -> Session:
    if _session not in config.stash:
        config.stash[_session] = _made(config)
    return config.stash[_session]


def _made(config: pytest.Config) -> Session:
    from clusters.errors import Refused
    from harness.plugin.session import Options, Session
    from harness.plugin.wanted import Wanted

    try:
        defaults = Wanted(
            shards=_number(config, "mongofault_shards", 0),
            members=_number(config, "mongofault_members", 1),
            version=config.getini("mongofault_version") or None,
            provider=config.getoption("--mongofault-provider"),
        )
        return Session(
            Options(
                defaults,
                keep=config.getoption("--mongofault-keep"),
                uri=config.getoption("--mongofault-uri"),
                uri_file=config.getoption("--mongofault-uri-file"),
                runs=config.rootpath / config.getini("mongofault_runs"),
            )
        )
    except Refused as error:
        pytest.fail(f"mongofault: {error}", pytrace=False)


def _number(config: pytest.Config, name: str, least: int) -> int:
    text = config.getini(name)
    if not text.isdecimal() or int(text) < least:
        pytest.fail(f"mongofault: {name} = {text}: expected a whole number, {least} or more", pytrace=False)
    return int(text)
