"""Which image to use, and which servers are in it: told by its labels where it is one of ours, else by running it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from clusters.binaries import find_mongod, versions_of
from clusters.cluster import ServerInfo
from clusters.compose import engine, image
from clusters.errors import ClusterError, Refused
from clusters.guard import RemoveContainers, new_token, undo_until_done
from clusters.local import info_of, open_ledger
from clusters.quirks import major_of
from clusters.topology import Topology

OFFICIAL: Final = "mongo:8.0"
VARIABLE: Final = "MONGO_IMAGE"
CLEARED: Final = 30.0
"""Seconds to remove the container that was asked."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The servers of an image that is there."""

    image: str
    version: str
    git_version: str
    has_mongos: bool

    def server_info(self, topology: Topology) -> ServerInfo:
        """What server a cluster of this topology will be."""
        return info_of(topology, self.version, self.git_version, has_mongos=self.has_mongos)

    @property
    def major(self) -> tuple[int, int]:
        return major_of(self.version)


def local_image() -> str | None:
    """The image to use where none is named and none is to be pulled: MONGO_IMAGE, that of `mongofault image build`, the
    official one, whichever is there first. Raises EngineFailed."""
    named = os.environ.get(VARIABLE)
    return next((one for one in ([named] if named else [*_built(), OFFICIAL]) if engine.image(one)), None)


def of(name: str | None, version: str | None = None) -> Contents:
    """Of the image of that name, or of the one to be used, which is pulled where it is not there; of that server
    version where one is asked for: the image that was built of it, else the official one. Raises Refused."""
    engine.require()
    try:
        chosen = name or (version and _of_version(version)) or local_image() or os.environ.get(VARIABLE) or OFFICIAL
        if (inspected := engine.image(chosen)) is None:
            _pull(chosen)
            inspected = engine.image(chosen)
        assert inspected is not None
        found = _labelled(chosen, inspected["Config"].get("Labels") or {}) or _asked(chosen, inspected["Id"])
    except engine.EngineFailed as error:
        raise Refused(str(error)) from None
    if version is not None and found.version != version:
        raise Refused(f"image {chosen} has mongod {found.version}, and {version} is asked for: name another by --image")
    return found


def _of_version(version: str) -> str:
    built = image.image_tag(version)
    return built if engine.image(built) is not None else f"{OFFICIAL.partition(':')[0]}:{version}"


def _built() -> list[str]:
    try:
        return [image.image_tag(find_mongod().version)]
    except Refused:
        return []


def _pull(name: str) -> None:
    try:
        engine.pull(name)
    except engine.EngineFailed as error:
        raise Refused(
            f"image {name} is not here and cannot be pulled ({error}): name another by --image, or make one of the "
            "mongod of this machine with mongofault image build"
        ) from None


def _labelled(name: str, labels: Mapping[str, str]) -> Contents | None:
    if not all(one in labels for one in (image.VERSION, image.GIT, image.MONGOS)):
        return None
    return Contents(name, labels[image.VERSION], labels[image.GIT], labels[image.MONGOS] == "yes")


@cache
def _asked(name: str, _identity: str) -> Contents:
    token = new_token()
    # Whatever ends this process, the container that is asked does not stay.
    ledger, guardian = open_ledger(f"image-{token[:8]}")
    try:
        ledger.open(RemoveContainers(token), title=f"what asks image {name}")
        said = engine.output(name, ["mongod", "--version"], token) or ""
        mongos = engine.output(name, ["mongos", "--version"], token)
    finally:
        report = undo_until_done(ledger, CLEARED, everything=True)
        if report.failed:
            raise ClusterError("could not be removed: " + "; ".join(str(failure) for failure in report.failed))
        guardian.dismiss()
    if (told := versions_of(said)) is None:
        raise Refused(f"image {name} has no mongod that runs: expected one such as {OFFICIAL}")
    return Contents(name, *told, mongos is not None)
