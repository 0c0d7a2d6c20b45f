"""`python -m clusters.guard LEDGER`: the guardian's process. Started by `Guardian.start`, not by people."""

from __future__ import annotations

import sys
from pathlib import Path

from clusters.guard.errors import LedgerError
from clusters.guard.guardian import watch


def main() -> int:
    if len(sys.argv) != 2:
        print("expected one argument, the directory of a ledger", file=sys.stderr)
        return 3
    try:
        return watch(Path(sys.argv[1]))
    except LedgerError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
