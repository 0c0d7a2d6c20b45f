"""Where the console script begins. A signal while Python still imports ends it quietly: nothing was started yet."""

from __future__ import annotations

import os
import signal

from harness.exits import INTERRUPTED


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))
    from harness.cli import main as run

    run()
