"""Exit codes: what a program that starts `mongofault` learns from them. Nothing else may end the process."""

from __future__ import annotations

from typing import Final

AS_EXPECTED: Final = 0
NOT_AS_EXPECTED: Final = 1
UNKNOWN: Final = 2
"""Unproven fault, too little traffic, bring-up or heal failed; the reason is said."""
REFUSED: Final = 3
"""Usage errors, and requests that cannot be carried out; nothing was started."""
INTERRUPTED: Final = 130
INTERNAL: Final = 254
