"""When a router learns that one shard is stale and its refresh is slow, do only the operations for that shard wait?

The same is asked of a fine router and of a coarse one, side by side in one cluster. The coarse one holds back the whole
collection, on purpose: a check that it does not fail proves nothing of the fine one.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field, model_validator

from clusters import quirks
from clusters.cluster import Cluster, ServerInfo
from clusters.errors import Refused
from clusters.topology import Settings, Topology, sharded_cluster
from harness.measures import ALL_BLOCKED, ISOLATED, MORE_BLOCKED, NONE_WAITED
from harness.scenarios import stale_cases
from harness.scenarios.parameters import Parameters, Seconds
from harness.scenarios.stale_cases import GIVEN_UP, SOON, Case, HoldBy
from harness.watchers.routing import VERBOSITY

SETTING: Final = "enableFinerGrainedCatalogCacheRefresh"
"""Whether a router marks the shard that is stale, or its whole table. Only at startup; false by default on a mongod."""
OUTCOMES: Final = (ISOLATED, ALL_BLOCKED, MORE_BLOCKED, NONE_WAITED)
HOLDING: Final = 3
"""Shards that hold the collection; those past them route, and own nothing: who takes part in a change learns of it."""
ROUTING: Final = 2
MEASURED: Final = (6, 0)
CACHE_GB: Final = 1 / 16


class StaleParameters(Parameters):
    """Options of `stale-shard`."""

    members: int = Field(1, ge=1, le=1, description="Members of each shard.")
    shards: int = Field(
        HOLDING + ROUTING, ge=HOLDING + ROUTING, le=50, description="Three hold data, the others route."
    )
    case: str = Field("isolation", description=f"The case: {', '.join(stale_cases.CASES)}.")
    via: Literal["split", "move"] = Field(
        "split", description="How the routers become stale: for one shard by a split, or for two by a range moved."
    )
    hold_by: HoldBy = Field("fail-point", description="What holds their refresh.")
    hold: Seconds = Field(1.0, gt=0, le=600, description="How long it is held once all operations are sent.")
    within: Seconds = Field(0.5, gt=0, le=60, description="An operation that is answered sooner did not wait.")

    @model_validator(mode="after")
    def _consistent(self) -> StaleParameters:
        if self.case not in stale_cases.CASES:
            raise ValueError(f"--case {self.case}: expected one of {', '.join(stale_cases.CASES)}")
        if self.driver_option or self.driver != "pymongo":
            raise ValueError("operations are sent without a driver: leave --driver and --driver-option out")
        if self.case != "isolation":
            for name in ("via", "hold_by"):
                if name in self.model_fields_set:
                    raise ValueError(f"--{name.replace('_', '-')} is the case isolation's; leave it out")
        if self.hold_by == "kill-config" and SOON <= self.hold < GIVEN_UP:
            raise ValueError(
                f"--hold {self.hold:g} s: routers give up after about 15 s without a config server; expected less "
                f"than {SOON:g} s, or at least {GIVEN_UP:g} s"
            )
        if self.hold_by == "fail-command" and self.hold > LONGEST_COMMAND:
            raise ValueError(
                f"--hold {self.hold:g} s: fail-command blocks {LONGEST_COMMAND:g} s at most, less what comes before "
                "the hold; expected another --hold-by"
            )
        if self.hold <= self.within:
            raise ValueError(f"--hold {self.hold:g} s: must be longer than --within, {self.within:g} s")
        for one in self.expect:
            if one not in OUTCOMES:
                raise ValueError(f"--expect {one}: expected one of {', '.join(OUTCOMES)}")
        return self


BEFORE_HOLD: Final = 4.0
"""Seconds that a blocked command is blocked beyond the hold, for all that is sent before the hold begins."""
LONGEST_COMMAND: Final = 20.0 - BEFORE_HOLD


class StaleShard:
    """The scenario; see the module."""

    name: ClassVar[str] = "stale-shard"
    question: ClassVar[str] = "While a router refreshes what it knows of one stale shard, who else waits?"
    model: ClassVar[type[Parameters]] = StaleParameters

    def __init__(self, parameters: StaleParameters) -> None:
        self.parameters = parameters

    @property
    def case(self) -> Case:
        return stale_cases.of(self.parameters.case, self.parameters.via, self.parameters.hold_by, self.parameters.hold)

    def topology(self) -> Topology:
        """Every second shard past the data is a fine router, the others are coarse; all logs tell of refreshes."""
        told = {"logComponentVerbosity": VERBOSITY}
        topology = sharded_cluster(
            self.parameters.shards, self.parameters.members, settings=Settings(cache_gb=CACHE_GB)
        )
        for number, shard in enumerate(topology.shards[HOLDING:]):
            for member in shard.members:
                setting = "true" if number % 2 == 0 else "false"
                topology = topology.with_member(member.name, parameters={SETTING: setting, **told})
        return topology

    def proxied(self) -> bool:
        return False

    def suits(self, cluster: Cluster) -> str | None:
        """Which of its members route in which way is read from them, see `harness.routing`."""
        if not cluster.topology.sharded or len(cluster.topology.shards) < HOLDING + ROUTING:
            return f"{HOLDING} shards for the data are needed, and {ROUTING} that route"
        return None

    def expected(self, server: ServerInfo) -> frozenset[str]:
        """Of the fine router. Raises Refused where servers of this version have no such routers."""
        line = quirks.major_of(server.version)
        if not quirks.of_line(line).cluster_commands:
            raise Refused(f"not applicable: shards of {server.version} run no router code, there is nothing to ask")
        if line > MEASURED:
            raise Refused(f"not applicable: {SETTING} is of servers before 6.1, and this one is {server.version}")
        if self.parameters.expect:
            return frozenset(self.parameters.expect)
        return frozenset({self.case.expected["fine"].outcome})
