"""`python -m clusters.router`: the stand-in router as a process of its own. Prints `ready` when it listens.

Ends on SIGTERM or SIGINT with exit 0; exit 2 and one line on stderr where its arguments or its address cannot be used,
48, as a mongod, where somebody else has the address.

With `--uvloop` it runs on uvloop where that is installed (`pip install uvloop`, no dependency of the project): a fifth
less CPU per find (measured under load). Nobody here passes it; results are to be the same without.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import importlib
import logging
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from clusters.ports import ADDRESS_IN_USE_EXIT
from clusters.router.change_stream import CURSOR_TIMEOUT, SESSION_TIMEOUT, IdleLimits
from clusters.router.log import configure
from clusters.router.members import parse_set
from clusters.router.router import Router, Settings
from clusters.wire import addresses


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, found {text!r}")
    return text


def _reached(text: str) -> tuple[str, str]:
    known, _, reached = text.partition("=")
    return _address(known), _address(reached)


def _config_set(text: str) -> str:
    try:
        parse_set(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m clusters.router", description="The stand-in router.")
    parser.add_argument("--listen", type=_address, required=True, metavar="HOST:PORT")
    parser.add_argument("--configdb", type=_config_set, required=True, metavar="SET/HOST:PORT[,HOST:PORT]")
    parser.add_argument("--router-host", type=_address, required=True, metavar="HOST:PORT")
    parser.add_argument(
        "--address",
        type=_reached,
        action="append",
        default=[],
        metavar="HOST:PORT=HOST:PORT",
        help="where a member is reached that its set knows by another name (may be repeated)",
    )
    parser.add_argument("--server-version", default="6.0.5", metavar="VERSION", help="of the cluster's mongods")
    parser.add_argument("--seed", type=int, default=0, help="of the random choice among members")
    parser.add_argument(
        "--cursor-timeout", type=float, default=CURSOR_TIMEOUT, metavar="SECONDS", help="of an idle change stream"
    )
    parser.add_argument(
        "--session-timeout", type=float, default=SESSION_TIMEOUT, metavar="SECONDS", help="the same, in a session"
    )
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop, if it is installed")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING"))
    return parser.parse_args(argv)


def _open_more_files() -> None:
    """As many as may be had: the usual 1,024 are for programs that have no clients."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def serve(settings: Settings) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    router = Router(settings)
    try:
        await router.start()
    except OSError as error:
        print(f"cannot listen on {settings.listen}: {error.strerror or error}; choose another port", file=sys.stderr)
        return ADDRESS_IN_USE_EXIT if error.errno == errno.EADDRINUSE else 2
    print("ready", flush=True)
    await stop.wait()
    await router.close()
    return 0


def _runner(uvloop: bool) -> Callable[[Coroutine[Any, Any, int]], int]:
    if uvloop:
        try:
            library = importlib.import_module("uvloop")
        except ImportError:
            logging.getLogger("mongofault.router").warning("uvloop is not installed; running on asyncio's own loop")
        else:
            run: Callable[[Coroutine[Any, Any, int]], int] = library.run
            return run
    return asyncio.run


def main() -> None:
    options = arguments()
    configure(options.log_level)
    _open_more_files()
    addresses.publish(dict(options.address))
    limits = IdleLimits(options.cursor_timeout, options.session_timeout)
    settings = Settings(
        options.listen, options.configdb, options.router_host, options.seed, limits, options.server_version
    )
    sys.exit(_runner(options.uvloop)(serve(settings)))


if __name__ == "__main__":
    main()
