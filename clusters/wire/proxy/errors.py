"""What the control address answers with where a command cannot be carried out, in a server's codes."""

from __future__ import annotations

from typing import Any, Final

_NAMES: Final = {
    2: "BadValue",
    9: "FailedToParse",
    14: "TypeMismatch",
    59: "CommandNotFound",
    40415: "Location40415",
}


class Refusal(Exception):
    """`message` is one line: expected, found."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)

    def reply(self) -> dict[str, Any]:
        return {"ok": 0.0, "errmsg": str(self), "code": self.code, "codeName": _NAMES[self.code]}
