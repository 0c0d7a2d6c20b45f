"""mongofault for Python: clusters brought up, broken and watched in a program of one's own, histories judged.

async with mongofault.local_cluster(shards=2) as c, mongofault.stream_watch(c) as watch:
    async with mongofault.freeze(c.select("shard0/secondary")):
        print(await watch.until_silent())
"""

from importlib.metadata import version

from clusters.compose.cluster import ComposeCluster
from clusters.errors import ClusterError, MemberDied, Refused
from clusters.kept import load as load_cluster
from clusters.local import LocalCluster
from clusters.providers import bring_up
from clusters.topology import MemberSpec, SetSpec, Settings, Topology, sharded_cluster, single_replica_set
from faults import Evidence, Fault, Site, Unproven
from faults import by_name as fault
from harness.asked import run
from harness.breaking import (
    Breaking,
    bandwidth,
    blackhole,
    cpu_limit,
    cut,
    fail_command,
    fail_point,
    freeze,
    half_open,
    hang_after_command,
    hang_in_yield,
    hide_member,
    isolate,
    isolate_primary,
    kill,
    latency,
    lock_wait,
    memory_limit,
    move_tags,
    no_tickets,
    packet_loss,
    partition,
    pause_replication,
    refuse,
    remove_member,
    restart,
    slow_apply,
    step_down,
    stutter,
    swallow,
    terminate,
    write_conflict,
)
from harness.checkers import Finding, run_checkers
from harness.fresh import local_cluster, replica_set, standing
from harness.ground import Ground, Selection
from harness.histories import History, history
from harness.history import Event, read
from harness.injected import hold, injected, recovered
from harness.result import Result
from harness.stream_watch import SilentStream, StreamsNotSo, StreamWatch, stream_watch
from harness.verdict import Verdict, check_history

__version__ = version("mongofault")

__all__ = [
    "Breaking",
    "ClusterError",
    "ComposeCluster",
    "Event",
    "Evidence",
    "Fault",
    "Finding",
    "Ground",
    "History",
    "LocalCluster",
    "MemberDied",
    "MemberSpec",
    "Refused",
    "Result",
    "Selection",
    "SetSpec",
    "Settings",
    "SilentStream",
    "Site",
    "StreamWatch",
    "StreamsNotSo",
    "Topology",
    "Unproven",
    "Verdict",
    "__version__",
    "bandwidth",
    "blackhole",
    "bring_up",
    "check_history",
    "cpu_limit",
    "cut",
    "fail_command",
    "fail_point",
    "fault",
    "freeze",
    "half_open",
    "hang_after_command",
    "hang_in_yield",
    "hide_member",
    "history",
    "hold",
    "injected",
    "isolate",
    "isolate_primary",
    "kill",
    "latency",
    "load_cluster",
    "local_cluster",
    "lock_wait",
    "memory_limit",
    "move_tags",
    "no_tickets",
    "packet_loss",
    "partition",
    "pause_replication",
    "read",
    "recovered",
    "refuse",
    "remove_member",
    "replica_set",
    "restart",
    "run",
    "run_checkers",
    "sharded_cluster",
    "single_replica_set",
    "slow_apply",
    "standing",
    "step_down",
    "stream_watch",
    "stutter",
    "swallow",
    "terminate",
    "write_conflict",
]
