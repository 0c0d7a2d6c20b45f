"""The command line: commands put together, errors turned into one line and an exit code. Thin on purpose."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import typer

from clusters.errors import ClusterError, Refused
from clusters.guard import LedgerError
from harness import exits
from harness.commands.lazily import LazyGroup
from harness.history import HistoryError
from harness.interrupts import Interrupted, handled
from harness.output import complain, say

app = typer.Typer(
    name="mongofault",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        say(f"mongofault {importlib.metadata.version('mongofault')}")
        raise typer.Exit


BREAKING: Final = frozenset(("up", "run", "fault", "chaos", "nightly"))
"""Commands that begin on clean ground: what a killed run and its guardian left behind is healed first."""


@app.callback()
def _options(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Fault injection against real MongoDB clusters: what stalls, what is doubled, what a fault holds back."""
    if context.invoked_subcommand in BREAKING:
        from harness.commands.healing import heal_left_behind

        heal_left_behind()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and end the process with its exit code (`harness.exits`)."""
    with handled(for_good=True):
        sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run a command within a process that goes on; its exit code."""
    with handled():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    """Errors that a user can meet become one line."""
    try:
        return int(app(arguments, standalone_mode=False, prog_name="mongofault") or 0)
    except Refused as error:
        complain(str(error))
        return exits.REFUSED
    except ClusterError as error:
        complain(str(error))
        return exits.UNKNOWN
    except Interrupted as error:
        complain(str(error))
        return exits.INTERRUPTED
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return exits.INTERRUPTED
    except LedgerError as error:
        complain(str(error))
        return exits.UNKNOWN
    except (OSError, HistoryError) as error:
        complain(f"cannot be read or written: {getattr(error, 'strerror', None) or error}")
        return exits.UNKNOWN
    except Exception as error:
        if hasattr(error, "format_message"):  # the CLI library's usage errors, whose own exit code is 2
            return _misused(error.format_message(), getattr(error, "ctx", None))
        if os.environ.get("MONGOFAULT_DEBUG"):
            raise
        complain(f"internal error, please report it: {type(error).__name__}: {error} (MONGOFAULT_DEBUG=1 shows where)")
        return exits.INTERNAL


def _misused(message: str, context: Any) -> int:
    """A usage error in one line that says where help is; a command without its subcommand is that help itself."""
    if message.startswith("Usage:"):
        say(message)
    else:
        where = getattr(context, "command_path", "mongofault")
        commands = sorted(getattr(getattr(context, "command", None), "commands", {}))
        known = f" (there are: {', '.join(commands)})" if commands and message.startswith("No such command") else ""
        complain(f"{message.rstrip('.')}{known}; see {where} --help")
    return exits.REFUSED
