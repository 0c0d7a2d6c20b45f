"""explain: of find and aggregate by the in-process router, of the other commands where one shard has the collection.

Of those on several shards a mongos explains the ones its targeting chose; that is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.router.catalog import Catalog
from clusters.router.errors import RouterError
from clusters.router.members import Members
from clusters.router.owners import OF_A_VIEW, Owners
from clusters.router.router_host import RouterHost

VERBOSITIES: Final = ("queryPlanner", "executionStats", "allPlansExecution")
BY_ROUTER_HOST: Final = frozenset(("find", "aggregate"))
BY_SHARD: Final = frozenset(("count", "distinct", "update", "delete", "findAndModify", "findandmodify"))
_WRITES: Final = frozenset(("update", "delete", "findAndModify", "findandmodify"))
_TOTALS: Final = ("nReturned", "executionTimeMillis", "totalKeysExamined", "totalDocsExamined")


class Explain:
    def __init__(self, members: Members, catalog: Catalog, host: RouterHost) -> None:
        self._owners = Owners(members, catalog)
        self._host = host

    async def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        inner, verbosity = command["explain"], command.get("verbosity", "allPlansExecution")
        if not isinstance(inner, Mapping) or not inner:
            raise RouterError(14, "TypeMismatch", f"explain expects a command as an object, found {inner!r}")
        if verbosity not in VERBOSITIES:
            raise RouterError(
                2,
                "BadValue",
                f"Enumeration value '{verbosity}' for field 'explain.verbosity' is not a valid value.",
            )
        name = next(iter(inner))
        if name in BY_ROUTER_HOST:
            reply = await self._host.explain(command["$db"], {**command, "verbosity": verbosity})
            return {**reply, "command": {**inner, "$db": command["$db"]}} if "command" in reply else reply
        if name not in BY_SHARD:
            raise RouterError(59, "CommandNotFound", f"Explain failed due to unknown command: {name}")
        return await self._by_shard(command, name, verbosity)

    async def _by_shard(self, command: Mapping[str, Any], name: str, verbosity: str) -> dict[str, Any]:
        inner = command["explain"]
        replies = await self._owners.ask(command["$db"], inner[name], {"explain": inner, "verbosity": verbosity})
        views = any(one.get("code") in OF_A_VIEW for one in replies.values())
        if len(replies) > 1 or views:
            raise RouterError(
                115,
                "CommandNotSupported",
                f"the stand-in router explains {name} only of a collection that one shard has, found"
                f" {'a view' if views else ', '.join(replies)}; explain a find with the same filter",
            )
        ((shard, reply),) = replies.items()
        if reply["ok"] != 1:
            return reply
        stage = "SHARD_WRITE" if name in _WRITES else "SINGLE_SHARD"
        named = (await self._owners.connection_strings())[shard]
        plan = {"shardName": shard, "connectionString": named, "serverInfo": reply["serverInfo"]}
        explained: dict[str, Any] = {
            "queryPlanner": {
                "mongosPlannerVersion": 1,
                "winningPlan": {"stage": stage, "shards": [{**plan, **reply["queryPlanner"]}]},
            }
        }
        if "executionStats" in reply:
            stats = reply["executionStats"]
            totals = {one: stats[one] for one in _TOTALS if one in stats}
            stages = {
                "stage": stage,
                **totals,
                "totalChildMillis": stats["executionTimeMillis"],
                "shards": [{"shardName": shard, **stats}],
            }
            explained["executionStats"] = {**totals, "executionStages": stages}
        return {
            **explained,
            "serverInfo": await self._host.server_info(),
            "serverParameters": reply.get("serverParameters", {}),
            "command": {**inner, "$db": command["$db"]},
            "ok": 1.0,
        }
