"""Sessions, hello, cursors, parameters, listings and sizes: through the router and on a plain replica set."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from clusters.local import LocalCluster
from conformance import SHARDED, Place, Script, by_kind, compare_script, places

pytestmark = pytest.mark.live

SESSION: Final = {"id": Binary(uuid.uuid4().bytes, 4)}


@pytest.fixture(scope="module")
async def made(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[dict[str, Place]]:
    async with places(sharded, replica_set) as found:
        for place in found.values():
            for command in (
                {"insert": "orders", "documents": [{"region": n, "a": n} for n in range(-4, 4)]},
                {"create": "view", "viewOn": "orders", "pipeline": []},
            ):
                assert (await place.run(command))["ok"] == 1, (place.kind, command)
        yield found


def admin(name: str, value: Any = 1, also: str = "", **options: Any) -> Script:
    """A command on admin, told by its name, and `also` by what is special."""
    routed, shape = options.pop("routed", None), options.pop("shape", ())
    return Script(f"{name} {also}", [{name: value, **options}], routed=routed, database="admin", shape=shape)


SESSIONS: Final = [
    admin("startSession", shape=("id", "timeoutMinutes")),
    admin("startSession", also="unknown option", surprise=1, shape=("id", "timeoutMinutes")),
    admin("endSessions", [SESSION]),
    admin("endSessions", [], "none"),
    admin("endSessions", 1, "a number"),
    admin("endSessions", [1], "of numbers"),
    admin("endSessions", [{}], "without an id"),
    admin("endSessions", [SESSION], "unknown option", surprise=1),
    admin("refreshSessions", [SESSION]),
    admin("refreshSessions", [], "none"),
    admin("refreshSessions", "x", "a text"),
    admin("killSessions", [SESSION]),
    admin("killSessions", [], "none"),
    admin("killSessions", 1, "a number"),
    admin("killSessions", [{}], "without an id"),
    admin("killAllSessions", [{"user": "nobody", "db": "none"}]),
    admin("killAllSessions", 1, "a number"),
    admin("killAllSessionsByPattern", [{"lsid": {**SESSION, "uid": Binary(b"x" * 32)}}]),
    admin("killAllSessionsByPattern", [{"surprise": 1}], "unknown field"),
]

HELLO: Final = ("ismaster", "isWritablePrimary", "maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize",
                "localTime", "logicalSessionTimeoutMinutes", "connectionId", "minWireVersion", "maxWireVersion",
                "helloOk", "topologyVersion")  # fmt: skip

GREETINGS: Final = [
    admin("hello", shape=HELLO),
    admin("isMaster", shape=HELLO),
    admin("ismaster", also="helloOk", helloOk=True, shape=HELLO),
    admin("hello", also="comment", comment={"of": "a driver"}, shape=HELLO),
    admin("hello", also="saslSupportedMechs", saslSupportedMechs="admin.nobody", shape=HELLO),
    admin("hello", also="maxAwaitTimeMS alone", maxAwaitTimeMS=100),
    admin("ping"),
    admin("ping", also="comment", comment="c"),
    admin("buildInfo", shape=("version", "gitVersion", "versionArray", "bits", "maxBsonObjectSize", "modules")),
    admin("connectionStatus"),
    admin("connectionStatus", also="showPrivileges", showPrivileges=True,
          shape=("authInfo",)),
    admin("hostInfo", shape=("system", "os", "extra")),
    admin("getCmdLineOpts", shape=("argv", "parsed")),
    admin("listCommands", shape=("commands",)),
    admin("getLog", "*"),
    admin("getLog", "global", shape=("totalLinesWritten", "log")),
    admin("getLog", "startupWarnings", shape=("totalLinesWritten", "log")),
    admin("getLog", "surprise"),
    admin("getLog", 1, "a number"),
    admin("serverStatus", shape=("host", "version", "pid", "uptime", "uptimeMillis", "localTime", "connections",
                                 "opcounters", "metrics")),
    admin("surprise", also="unknown command"),
]  # fmt: skip

TIMES: Final = [
    Script(f"{name} maxTimeMS {limit!r}", [{name: value, "maxTimeMS": limit}], database="admin", shape=shape)
    for name, value, shape in (("ping", 1, ()), ("listDatabases", 1, ("databases",)), ("endSessions", [], ()))
    for limit in (0, 60_000, 60_000.0, Int64(60_000), None, -1, 1.5, "long", True, 2**31 - 1, 2**31)
]

CURSORS: Final = [
    Script("killCursors unknown", [{"killCursors": "orders", "cursors": [Int64(77)]}]),
    Script("killCursors on nothing", [{"killCursors": "nothing", "cursors": [Int64(77)]}]),
    Script("killCursors unknown option", [{"killCursors": "orders", "cursors": [Int64(77)], "surprise": 1}]),
    Script("killCursors on a number", [{"killCursors": 1, "cursors": [Int64(77)]}]),
    Script("killCursors comment", [{"killCursors": "orders", "cursors": [Int64(77)], "comment": "c"}]),
]

PARAMETERS: Final = [
    admin("getParameter", also="one", quiet=1),
    admin("getParameter", also="two", quiet=1, cursorTimeoutMillis=1),
    admin("getParameter", also="featureCompatibilityVersion", featureCompatibilityVersion=1),
    admin("getParameter", {"showDetails": True}, "of details", quiet=1),
    admin("getParameter", also="unknown", surprise=1),
    admin("getParameter", also="none"),
    admin("getParameter", also="comment", quiet=1, comment="c"),
    admin("getParameter", "*", "everything", shape=("quiet", "logLevel", "cursorTimeoutMillis")),
    Script("getParameter not on admin", [{"getParameter": 1, "quiet": 1}]),
    admin("setParameter", also="what it is", quiet=False),
    admin("setParameter", also="unknown", surprise=1),
    admin("setParameter", also="none"),
    admin("setParameter", also="of a wrong type", logLevel="loud"),
    admin("setParameter", also="only at startup", enableTestCommands=1),
    Script("setParameter not on admin", [{"setParameter": 1, "quiet": False}]),
]

DATABASES: Final = [
    admin("listDatabases", shape=("databases", "totalSize", "totalSizeMb")),
    admin("listDatabases", also="by name", nameOnly=True, filter={"name": "DATABASE"}),
    admin("listDatabases", also="names of none", nameOnly=True, filter={"name": "none"}),
    admin("listDatabases", also="unknown operator", filter={"name": {"$surprise": 1}}),
    admin("listDatabases", also="a filter that is none", filter=1),
    admin("listDatabases", also="unknown option", surprise=1),
    admin("listDatabases", also="authorizedDatabases", nameOnly=True, filter={"name": "x"}, authorizedDatabases=True),
    Script("listDatabases not on admin", [{"listDatabases": 1}]),
]


def of(name: str, what: Any, also: str = "", **options: Any) -> Script:
    shape = options.pop("shape", ())
    return Script(f"{name} {also}", [{name: what, **options}], shape=shape)


SIZES: Final = ("ns", "size", "count", "avgObjSize", "storageSize", "freeStorageSize", "nindexes", "totalIndexSize",
                "totalSize", "indexSizes", "scaleFactor")  # fmt: skip
DB_SIZES: Final = ("db", "collections", "views", "objects", "avgObjSize", "dataSize", "storageSize", "indexes",
                   "indexSize", "totalSize", "scaleFactor", "fsUsedSize", "fsTotalSize")  # fmt: skip

STATS: Final = [
    of("collStats", "orders", shape=SIZES),
    of("collStats", "orders", "scaled", scale=1024, shape=SIZES),
    of("collStats", "orders", "scale 0", scale=0),
    of("collStats", "orders", "scale below 0", scale=-1),
    of("collStats", "orders", "scale as text", scale="x"),
    of("collStats", 1, "of a number"),
    of("collStats", "nothing", "of nothing", shape=("ns", "size", "count", "storageSize", "nindexes")),
    of("dbStats", 1, shape=DB_SIZES),
    of("dbStats", 1, "scaled", scale=1024, shape=DB_SIZES),
    of("dbStats", 1, "scale 0", scale=0),
    of("dbStats", 1, "scale as text", scale="x"),
    of("dbStats", 1, "unknown option", surprise=1, shape=DB_SIZES),
    of("dbStats", 1, "freeStorage", freeStorage=1, shape=(*DB_SIZES, "freeStorageSize", "totalFreeStorageSize")),
    of("dataSize", "DATABASE.orders", shape=("size", "numObjects", "millis")),
    of("dataSize", "DATABASE.orders", "unknown option", surprise=1, shape=("size", "numObjects")),
    of("dataSize", 1, "of a number"),
    of("validate", "orders", shape=("valid",)),
    of("validate", "orders", "full", full=True, shape=("valid",)),
    of("validate", "orders", "unknown option", surprise=1, shape=("valid",)),
    of("validate", "view", "of a view"),
    of("validate", 1, "of a number"),
    of("planCacheClear", "orders", shape=("ok",)),
    of("planCacheClear", "orders", "sort alone", sort={"a": 1}),
    of("planCacheClear", 1, "of a number"),
]


@by_kind(*CURSORS, *STATS)
async def test_cursors_and_sizes_are_told_as_by_a_replica_set(made: dict[str, Place], case: Script, kind: str) -> None:
    await compare_script(made, case, kind)


@by_kind(*SESSIONS, *GREETINGS, *TIMES, *PARAMETERS, *DATABASES, kinds=[SHARDED])
async def test_a_command_about_the_server_is_answered_as_by_a_replica_set(
    made: dict[str, Place], case: Script, kind: str
) -> None:
    await compare_script(made, case, kind)
