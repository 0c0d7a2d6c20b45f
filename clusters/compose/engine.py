"""The Docker engine: what is asked of it and done by it, its errors as one line. Knows containers, not whose they are.

The SDK is imported when the engine is first asked: most commands have no use for it. Which engine is meant is said by
DOCKER_HOST, else by the current context of the `docker` command, else it is the one of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from clusters.errors import ClusterError, Refused

if TYPE_CHECKING:
    from docker import DockerClient

Document = dict[str, Any]

TIMEOUT: Final = 60
"""Seconds for one answer of the engine; on a burdened machine it needs several for a container."""
TOKEN: Final = "mongofault.token"
"""The label of all that is made for a cluster; its value is known to the cluster's ledger alone."""
KINDS: Final = ("container", "network", "volume")

NOT_FOUND: Final = 404
IN_USE: Final = (403, 409)
NOT_SO: Final = (304, 409)
"""What the engine answers to a pause of one that is paused, a start of one that runs, and the like."""


class EngineFailed(ClusterError):
    """The engine said no, or nothing at all; one line. `status` is that of its answer, 0 where there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


def host() -> str | None:
    """The engine's URL; None for the SDK's own default. Also what a `docker` command is to be told (DOCKER_HOST)."""
    if given := os.environ.get("DOCKER_HOST"):
        return given
    from docker.context import ContextAPI
    from docker.errors import DockerException

    # Contexts that cannot be read are for the docker command to complain of.
    with suppress(DockerException, OSError, ValueError):
        found = ContextAPI.get_current_context()
        return str(found.Host) if found is not None and found.Host else None
    return None


def connect() -> DockerClient:
    """The engine, for what is not done here. Raises Refused where none answers; to be closed."""
    from docker import DockerClient

    require()
    return DockerClient(timeout=TIMEOUT, version="auto", **_settings())


def require() -> None:
    """Raises Refused, in one line, where no engine answers."""
    version()


def version() -> str:
    """The engine's own. Raises Refused, in one line, where none answers."""
    try:
        with _asking("version"):
            return str(_api().version()["Version"])
    except EngineFailed as error:
        raise Refused(f"no container engine: {error}; start it (dockerd, Docker Desktop), or set DOCKER_HOST") from None


def prepare() -> None:
    """Import the SDK and find the engine; that none is found is for whoever asks it."""
    with suppress(EngineFailed), _asking("version"):
        _api()


def inspect(container: str) -> Document | None:
    """What the engine knows of a container; None where there is none."""
    return _found(lambda: _api().inspect_container(container), "inspect")


def image(name: str) -> Document | None:
    """What the engine knows of an image; None where it is not there."""
    return _found(lambda: _api().inspect_image(name), "image inspect")


def pull(name: str) -> None:
    """Get an image from its registry. Raises EngineFailed."""
    repository, _, tag = name.partition(":") if "/" not in name.rpartition(":")[2] else (name, "", "")
    with _asking(f"pull {name}"):
        _api().pull(repository, tag=tag or "latest")


def output(image_name: str, command: Sequence[str], label: str) -> str | None:
    """What a command says in a container of that image, which is gone afterwards; None where it cannot be run.

    Raises EngineFailed.
    """
    with _asking(f"run {image_name}"):
        made = _api().create_container(
            image_name, entrypoint=list(command), labels={TOKEN: label}, network_disabled=True
        )
        try:
            try:
                _api().start(made["Id"])
            except _errors().APIError:
                return None
            _api().wait(made["Id"], timeout=TIMEOUT)
            return bytes(_api().logs(made["Id"])).decode(errors="replace")
        finally:
            _api().remove_container(made["Id"], force=True, v=True)


def pause(container: str) -> None:
    with _asking(f"pause {container}", fine=NOT_SO):
        _api().pause(container)


def unpause(container: str) -> None:
    with _asking(f"unpause {container}", fine=(*NOT_SO, 500)):
        _api().unpause(container)


def signal(container: str, name: str) -> None:
    """Send a signal (`STOP`) to the first process of a container; none where it does not run."""
    with _asking(f"kill {container}", fine=(NOT_FOUND, *NOT_SO)):
        _api().kill(container, name)


def start(container: str) -> None:
    """Start one that has ended; raises EngineFailed also where it is gone."""
    with _asking(f"start {container}", fine=(304,)):
        _api().start(container)


def limit(container: str, limits: Mapping[str, int]) -> None:
    """Limits of a container, in the SDK's names (`cpu_quota`); one that is gone has none."""
    with _asking(f"update {container}", fine=(NOT_FOUND,)):
        _api().update_container(container, **limits)


def logs(container: str, since: float = 0.0) -> str:
    """What it wrote since then (seconds since the epoch)."""
    with _asking(f"logs {container}"):
        more = {"since": since} if since > 0 else {}
        return bytes(_api().logs(container, **more)).decode(errors="replace")


def attach(network: str, container: str, *, aliases: Sequence[str], address: str) -> None:
    with _asking(f"network connect {container}"):
        _api().connect_container_to_network(container, network, aliases=list(aliases), ipv4_address=address or None)


def detach(network: str, container: str) -> None:
    with _asking(f"network disconnect {container}", fine=(NOT_FOUND,)):
        _api().disconnect_container_from_network(container, network, force=True)


def subnets() -> list[str]:
    """Those of all networks."""
    with _asking("network ls"):
        networks = _api().networks()
    found = ((one.get("IPAM") or {}).get("Config") or () for one in networks)
    return [one["Subnet"] for configs in found for one in configs if one.get("Subnet")]


def gateways() -> list[str]:
    """The addresses that the engine's own machine has on its bridges."""
    with _asking("network ls"):
        networks = _api().networks(filters={"driver": "bridge"})
    found = [one for network in networks for one in (network.get("IPAM") or {}).get("Config") or ()]
    return [one["Gateway"] for one in found if one.get("Gateway")]


def bearing(token: str, kind: str) -> list[Document]:
    """All containers, networks or volumes that bear a token as their label."""
    label = {"label": [f"{TOKEN}={token}"]}
    with _asking(f"{kind} ls"):
        if kind == "container":
            return list(_api().containers(all=True, filters=label))
        if kind == "network":
            return list(_api().networks(filters=label))
        return list(_api().volumes(filters=label).get("Volumes") or ())


def remove(kind: str, one: Mapping[str, Any]) -> None:
    """Remove what `bearing` found, at once and whatever it does; fine where it is gone, going or in use yet."""
    name = str(one["Name"] if kind == "volume" else one["Id"])
    with _asking(f"{kind} rm {name}", fine=(NOT_FOUND, *IN_USE)):
        if kind == "container":
            # Its unnamed volumes with it.
            _api().remove_container(name, force=True, v=True)
        elif kind == "network":
            _api().remove_network(name)
        else:
            _api().remove_volume(name, force=True)


def _api() -> Any:
    return _api_of(os.environ.get("DOCKER_HOST"))


@cache
def _api_of(_host: str | None) -> Any:
    from docker import APIClient

    return APIClient(timeout=TIMEOUT, version="auto", **_settings())


def _settings() -> dict[str, Any]:
    from docker.utils import kwargs_from_env

    settings = dict(kwargs_from_env())
    if "base_url" not in settings and (url := host()) is not None:
        settings["base_url"] = url
    return settings


def _errors() -> Any:
    from docker import errors

    return errors


def _found(ask: Any, what: str) -> Document | None:
    try:
        with _asking(what):
            found: Document = ask()
            return found
    except EngineFailed as error:
        if error.status == NOT_FOUND:
            return None
        raise


@contextmanager
def _asking(what: str, *, fine: Sequence[int] = ()) -> Iterator[None]:
    """Raises EngineFailed instead of all that the SDK raises; an answer with one of the statuses in `fine` is fine."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except APIError as error:
        status = error.response.status_code if error.response is not None else 0
        if status not in fine:
            raise EngineFailed(f"docker {what}: {' '.join(str(error.explanation or error).split())}", status) from None
    except (DockerException, RequestException, OSError) as error:
        where = os.environ.get("DOCKER_HOST") or "the engine of this machine"
        raise EngineFailed(f"docker {what}: no answer from {where} ({_reason(error)})") from None


def _reason(error: BaseException) -> str:
    """Of the exceptions that wrap each other the innermost that says something."""
    words = " ".join(str(error).split())
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
        if isinstance(error, OSError) and error.strerror:
            words = error.strerror
    return words[:120]
