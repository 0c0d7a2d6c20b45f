"""The Docker engine: the one place that opens it. Every failure to do so is one line."""

from __future__ import annotations

import docker
from docker.errors import DockerException

from clusters.errors import Refused

DEADLINE = 60
"""Seconds for one answer of the engine; it writes a layer of 200 MB meanwhile."""


def connect() -> docker.DockerClient:
    """The engine that DOCKER_HOST names, else the machine's own. Raises Refused where none answers; to be closed."""
    try:
        client = docker.from_env(timeout=DEADLINE)
    except DockerException as error:
        raise Refused(f"{_none(error)}; start it (dockerd, Docker Desktop), or set DOCKER_HOST") from None
    try:
        client.ping()
    except Exception as error:
        client.close()
        raise Refused(f"{_none(error)}; start it, or set DOCKER_HOST") from None
    return client


def _none(error: Exception) -> str:
    return f"no Docker engine answers ({str(error)[:160]})"
