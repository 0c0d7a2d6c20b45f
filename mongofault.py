"""mongofault for Python: bring clusters up, break them, judge histories.

cluster = await mongofault.bring_up(mongofault.sharded_cluster(2, 3), "mine")
try:
    async with cluster.client() as client, mongofault.injected(cluster, "freeze", "shard0/secondary"): ...
finally:
    await cluster.down()
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
from harness.checkers import Finding, run_checkers
from harness.ground import Ground
from harness.history import Event, read
from harness.injected import hold, injected
from harness.stage import recovered
from harness.verdict import Verdict, check_history

__version__ = version("mongofault")

__all__ = [
    "ClusterError",
    "ComposeCluster",
    "Event",
    "Evidence",
    "Fault",
    "Finding",
    "Ground",
    "LocalCluster",
    "MemberDied",
    "MemberSpec",
    "Refused",
    "SetSpec",
    "Settings",
    "Site",
    "Topology",
    "Unproven",
    "Verdict",
    "__version__",
    "bring_up",
    "check_history",
    "fault",
    "hold",
    "injected",
    "load_cluster",
    "read",
    "recovered",
    "run_checkers",
    "sharded_cluster",
    "single_replica_set",
]
