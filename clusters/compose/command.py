"""The Compose command, of either generation: which there is, and a project brought up with it.

`docker compose` (v2) where the plugin is installed, else `docker-compose`. All else is asked of the engine itself.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from clusters.compose import engine
from clusters.errors import ClusterError, Refused

LOOK_DEADLINE: Final = 20.0
LAST_WORDS: Final = 300
"""Characters of what it said last."""


@cache
def command() -> tuple[str, ...]:
    """How Compose is called here. Raises Refused where there is none."""
    if shutil.which("docker") is not None:
        try:
            plugin = subprocess.run(
                ["docker", "compose", "version"], capture_output=True, timeout=LOOK_DEADLINE, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            pass
        else:
            if plugin.returncode == 0:
                return "docker", "compose"
    if shutil.which("docker-compose") is not None:
        return ("docker-compose",)
    raise Refused("no Compose here: install the docker-compose-plugin (docker compose), or docker-compose")


async def up(file: Path, project: str, environment: Mapping[str, str]) -> None:
    """Bring a project up; returns when all of its containers were started. Raises ClusterError with its last words.

    `environment` is added to our own; it may hold a token by which the command is found and ended if we are gone.
    """
    where = {} if (url := engine.host()) is None else {"DOCKER_HOST": url}
    arguments: Sequence[str] = [*command(), "--project-name", project, "--file", str(file), "up", "--detach"]
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=file.parent,
        env={**os.environ, **where, **environment},
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(asyncio.create_task(process.wait()))
        raise
    if process.returncode != 0:
        words = " ".join(said.decode(errors="replace").split())
        raise ClusterError(f"{' '.join(command())} up failed (exit code {process.returncode}): {words[-LAST_WORDS:]}")
