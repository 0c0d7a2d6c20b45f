"""The command line: commands put together, errors turned into one line and an exit code. Thin on purpose."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from clusters.errors import ClusterError, Refused
from harness import exits
from harness.commands import clusters, runs, tools
from harness.interrupts import Interrupted
from harness.output import complain

app = typer.Typer(
    name="mongofault",
    help="Fault injection against real MongoDB clusters: what stalls, what is doubled, what a fault holds back.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

app.add_typer(runs.app, name="run")
app.command("check")(runs.check)
app.command("list")(tools.list_)
app.command("up")(clusters.up)
app.command("status")(clusters.status)
app.command("exec", context_settings={"allow_interspersed_args": False})(clusters.exec_)
app.command("down")(clusters.down)
app.command("ls")(clusters.ls)
app.command("heal")(tools.heal)
app.command("doctor")(tools.doctor)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and end the process with its exit code (`harness.exits`)."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run a command; its exit code. Errors that a user can meet become one line."""
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
    except BrokenPipeError:
        # The reader of our output has gone (`mongofault ls | head -1`): nothing is wrong with us.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.AS_EXPECTED
    except Exception as error:
        if hasattr(error, "format_message"):  # the CLI library's usage errors, whose own exit code is 2
            complain(error.format_message())
            return exits.REFUSED
        if os.environ.get("MONGOFAULT_DEBUG"):
            raise
        complain(f"internal error, please report it: {type(error).__name__}: {error} (MONGOFAULT_DEBUG=1 shows where)")
        return exits.INTERNAL
