"""What is laid over a rendered Compose file for images with a mongosh: health checks, initiation; and authentication.

Pure, as `render` is. What they run lies beside the files, in `compose/scripts`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from clusters.compose import render
from clusters.compose.render import Document
from clusters.topology import Topology

SCRIPTS: Final = "./scripts:/mongofault:ro"
SHELL: Final = ("mongosh", "--quiet", "--norc", "--nodb")
INITIATE: Final = "initiate"
"""The service that makes a cluster of the servers, and ends."""
SECRETS: Final = {
    "keyfile": {"file": "${MONGO_KEYFILE:-./secrets/keyfile}"},
    "password": {"file": "${MONGO_PASSWORD_FILE:-./secrets/password}"},
}


def mongosh(topology: Topology, *, routers: int = 2) -> Document:
    """Health by writability of every server, and the service `initiate`; for an image that holds a mongosh."""
    healthy: Document = {
        "healthcheck": {
            # An engine before 23.0 lets a check go on that it gave up, and starts the next one beside it.
            "test": ["CMD", "timeout", "-k", "1", "25", *SHELL, "/mongofault/health.js"],
            # A shell takes most of a second of a core to start, and each container has one of its own.
            "interval": "20s",
            "timeout": "30s",
            "retries": 4,
            "start_period": "60s",
        },
        "volumes": [SCRIPTS],
    }
    return {"services": {**dict.fromkeys(_servers(topology, routers), healthy), INITIATE: _initiate(topology, routers)}}


def authenticated(topology: Topology, *, routers: int = 2) -> Document:
    """Every server with a key file, and `initiate` with the user that it adds."""
    guarded: Document = {
        "entrypoint": ["sh", "/mongofault/with-keyfile.sh"],
        "volumes": [SCRIPTS],
        "secrets": ["keyfile"],
    }
    initiate = _initiate(topology, routers)
    initiate["environment"]["MONGO_USER"] = "${MONGO_USER:-admin}"
    initiate["secrets"] = [*SECRETS]
    servers = dict.fromkeys(_servers(topology, routers), guarded)
    return {"services": {**servers, INITIATE: initiate}, "secrets": SECRETS}


def _servers(topology: Topology, routers: int) -> list[str]:
    return [*render.hosts(topology), *render.router_names(topology, routers)]


def _initiate(topology: Topology, routers: int) -> dict[str, Any]:
    known = render.hosts(topology)
    sets = [render.configuration(topology, one, known) for one in topology.sets()]
    return {
        "image": render.IMAGE,
        # Not by the image's own entrypoint, which goes on as a user who may not read the secrets.
        "entrypoint": [*SHELL, "/mongofault/initiate.js"],
        "environment": {
            "SETS": json.dumps(sets),
            "ROUTERS": ",".join(f"{name}:{render.PORT}" for name in render.router_names(topology, routers)),
        },
        "volumes": [SCRIPTS],
        "tmpfs": [str(render.DATA), render.CONFIG_DATA],
        "depends_on": _servers(topology, routers),
    }
