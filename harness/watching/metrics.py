"""What a watch tells Prometheus: the last picture, and alarms counted. No label names an operation or a session."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from clusters.errors import Refused
from harness.history import Event
from harness.watching.judging import KINDS, Picture
from harness.watching.streams import STATES

ADDRESS = "127.0.0.1"


class Metrics(Collector):
    """Given pictures by the watch, asked by the server's thread: it takes the last one whole."""

    def __init__(self) -> None:
        self._picture = Picture(at=0)
        self._alarms: Counter[str] = Counter()

    def take(self, picture: Picture, events: Sequence[Event]) -> None:
        self._picture = picture
        raised = Counter(KINDS[one.kind] for one in events if one.kind in KINDS and not one.get("update"))
        self._alarms = self._alarms + raised

    def collect(self) -> Iterable[Metric]:
        picture, alarms = self._picture, self._alarms
        build = InfoMetricFamily("mongofault_build", "The version of mongofault that watches.")
        build.add_metric([], {"version": importlib.metadata.version("mongofault")})
        yield build
        streams = GaugeMetricFamily("mongofault_streams", "Change streams by how they fare.", labels=["state"])
        for state in STATES:
            streams.add_metric([state], picture.counts[state])
        yield streams
        yield GaugeMetricFamily(
            "mongofault_stream_silent_seconds",
            "Seconds that the longest silent change stream is silent; 0 if none is.",
            value=max((one.silent_for for one in picture.streams.values()), default=0.0),
        )
        hung = GaugeMetricFamily(
            "mongofault_hung_getmores", "getMores of change streams far past their maxTimeMS.", labels=["member"]
        )
        counts = Counter(one.member for one in picture.hung)
        for member in picture.members:
            hung.add_metric([member], counts[member])
        yield hung
        yield GaugeMetricFamily(
            "mongofault_write_copies", "Copies of one write that run at once, of the write that has most; sampled.",
            value=picture.copies,
        )  # fmt: skip
        counted = CounterMetricFamily("mongofault_alarms", "Alarms raised since the watch began.", labels=["kind"])
        for kind in KINDS.values():
            counted.add_metric([kind], alarms[kind])
        yield counted
        members = GaugeMetricFamily(
            "mongofault_members", "Members and routers by whether they were seen at the last look.", labels=["state"]
        )
        members.add_metric(["seen"], len(picture.members) - len(picture.unseen))
        members.add_metric(["not_seen"], len(picture.unseen))
        yield members


@contextmanager
def served(metrics: Metrics, port: int) -> Iterator[None]:
    """`http://127.0.0.1:PORT/metrics`, until left. Raises Refused where the port is taken."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, addr=ADDRESS, registry=registry)
    except OSError as error:
        raise Refused(f"--metrics {port}: cannot listen on {ADDRESS}:{port}: {error.strerror}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
