"""`python -P -m clusters.wire.proxy`: the proxy as a process of its own. Prints `ready` when every address listens.

Ends on SIGTERM or SIGINT with exit 0; exit 2 and one line on stderr where its arguments or an address cannot be used,
48, as a mongod, where somebody else has the address. However it ends, the kernel closes its connections, and nothing
else is left. With `--uvloop` it runs on uvloop where that is installed; results are to be the same without.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import importlib
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from clusters.ports import ADDRESS_IN_USE_EXIT
from clusters.wire.proxy.control import Control
from clusters.wire.proxy.proxy import Address, Proxy


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, found {text!r}")
    return host, int(port)


def _link(text: str) -> tuple[str, tuple[Address, Address]]:
    name, _, addresses = text.partition("=")
    listen, _, target = addresses.partition(",")
    if not name or not listen or not target:
        raise argparse.ArgumentTypeError(f"expected NAME=HOST:PORT,HOST:PORT, found {text!r}")
    return name, (_address(listen), _address(target))


def _peer(text: str) -> tuple[str, str]:
    address, _, name = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT=NAME, found {text!r}")
    host, port = _address(address)
    return f"{host}:{port}", name


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m clusters.wire.proxy", description="The wire proxy of a cluster.")
    parser.add_argument("--control", type=_address, required=True, metavar="HOST:PORT")
    parser.add_argument("--link", type=_link, action="append", required=True, metavar="NAME=LISTEN,TARGET")
    parser.add_argument("--peer", type=_peer, action="append", default=[], metavar="HOST:PORT=NAME")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop, if it is installed")
    options = parser.parse_args(argv)
    names = [name for name, _addresses in options.link]
    for name in names:
        if names.count(name) > 1:
            parser.error(f"two links are called {name!r}")
    return options


async def serve(options: argparse.Namespace) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    proxy = Proxy(dict(options.link), dict(options.peer))
    try:
        await proxy.start()
        proxy.listening = options.control
        await loop.create_server(lambda: Control(proxy), *options.control)
    except OSError as error:
        where = "{}:{}".format(*proxy.listening)
        print(f"cannot listen on {where}: {error.strerror or error}; choose another port", file=sys.stderr)
        return ADDRESS_IN_USE_EXIT if error.errno == errno.EADDRINUSE else 2
    # What was imported is never garbage, and need not be looked through for it.
    gc.freeze()
    print("ready", flush=True)
    await stop.wait()
    proxy.close()
    return 0


def _runner(uvloop: bool) -> Callable[[Coroutine[Any, Any, int]], int]:
    if uvloop:
        try:
            run: Callable[[Coroutine[Any, Any, int]], int] = importlib.import_module("uvloop").run
        except ImportError:
            print("uvloop is not installed; running on asyncio's own loop", file=sys.stderr)
        else:
            return run
    return asyncio.run


def main() -> None:
    options = arguments()
    # As many as may be had: two for each connection.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.exit(_runner(options.uvloop)(serve(options)))


if __name__ == "__main__":
    main()
