"""`faults` and `fault`: the catalogue, and one fault by hand on a kept or adopted cluster."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import typer

import faults
from clusters import kept
from clusters.errors import Refused
from clusters.uri import Uri, needed
from faults.options import describe
from harness import byhand, exits
from harness.interrupts import interruptible
from harness.output import as_json, say
from harness.scenarios.parameters import parse_seconds

Json = typer.Option(False, "--json", help="JSON for other programs instead of text.")


def list_faults(json: bool = Json) -> None:
    """List the faults: what each does, what it can be aimed at, how it is proven and healed."""
    found = [(name, faults.by_name(name)) for name in faults.names()]
    if json:
        as_json([_described(name, kind) for name, kind in found])
        return
    for name, kind in found:
        say(f"{name}: {faults.summary(name)}")
        rows = [
            ("on", kind.needs),
            ("options", describe(kind.options) or "none"),
            ("proven by", kind.proven_by),
            ("healed by", kind.healed_by),
        ]
        for title, text in rows:
            say(f"    {title + ':':<11}{text}")


def _described(name: str, kind: type[faults.Fault]) -> dict[str, Any]:
    return {
        "name": name,
        "does": faults.summary(name),
        "needs": kind.needs,
        "options": describe(kind.options),
        "proven_by": kind.proven_by,
        "healed_by": kind.healed_by,
        "spares_health": kind.spares_health,
    }


def fault(
    name: str = typer.Argument(..., metavar="FAULT", help="What 'mongofault faults' lists.", show_default=False),
    on: str = typer.Option(
        ..., "--on", metavar="SPEC", help="Node spec: shard0-1, secondary, shard0/primary, router, tag:zone=b ..."
    ),
    hold: str = typer.Option("10s", "--hold", metavar="DURATION", help="How long it is held; Ctrl-C heals at once."),
    cluster: str = typer.Option(
        None, "--cluster", help="A kept or adopted cluster; else MONGOFAULT_CLUSTER, else 'default'."
    ),
    uri: str = typer.Option(None, "--uri", help="The cluster by its URI without a password; it must be adopted."),
    uri_file: Path = typer.Option(None, "--uri-file", metavar="FILE", help="The same, in a file that holds the URI."),
    fault_option: list[str] = typer.Option(
        [], "--fault-option", help="NAME=VALUE for the fault, e.g. how=fsyncLock (may be repeated)."
    ),
    namespace: str = typer.Option(None, "--namespace", help="DATABASE.COLLECTION, for faults that strike one alone."),
    seed: int = typer.Option(None, "--seed", help="Seed of the choice among targets; else drawn."),
    json: bool = Json,
) -> None:
    """Inject one fault into a cluster of ours by hand, print its proof, hold it, heal it."""
    wish = byhand.Wish(
        name, on, _seconds(hold), fault_option, namespace, secrets.randbelow(1 << 31) if seed is None else seed
    )
    tell = (lambda _line: None) if json else say
    where: str | Uri = cluster or kept.default_name()
    if uri is not None or uri_file is not None:
        if cluster is not None:
            raise Refused("--cluster and a URI both say which cluster: leave one of them out")
        where = needed(uri, uri_file)
    work = byhand.strike(where, wish, tell)
    outcome = asyncio.run(interruptible(work))
    if json:
        as_json(outcome.plain())
    raise typer.Exit(exits.AS_EXPECTED if outcome.as_it_should else exits.UNKNOWN)


def _seconds(given: str) -> float:
    try:
        seconds = float(str(parse_seconds(given)))
    except ValueError as error:
        raise Refused(f"--hold {given}: {error}") from None
    if not 0 < seconds <= 7200:
        raise Refused(f"--hold {given}: expected more than 0 s and at most 2 h")
    return seconds
