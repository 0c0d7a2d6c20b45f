"""SCRAM-SHA-256 and SCRAM-SHA-1 (RFC 5802, RFC 7677) as MongoDB speaks them: bytes in, bytes out.

Proves that both sides know a password without sending it. Knows no connection.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from typing import Final, Literal

from pymongo.saslprep import saslprep

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-1"]
MECHANISMS: Final[tuple[Mechanism, ...]] = ("SCRAM-SHA-256", "SCRAM-SHA-1")
"""The stronger first."""
_NO_BINDING: Final = b"n,,"
_LEAST_ITERATIONS: Final = 4096


class NotTrusted(Exception):
    """The server's part of the exchange is not what a server that knows the password would say."""


class Exchange:
    """One exchange: `first`, then `final` with the answer, then `verify` with the answer to that."""

    def __init__(self, user: str, password: str, mechanism: Mechanism, *, nonce: str | None = None) -> None:
        if mechanism == "SCRAM-SHA-256":
            self._digest, secret = "sha256", str(saslprep(password))
        else:
            # This one digests what MongoDB stored before it had SCRAM, and not the password itself.
            self._digest, secret = "sha1", hashlib.md5(f"{user}:mongo:{password}".encode()).hexdigest()
        self._secret = secret.encode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._nonce = nonce or b64encode(secrets.token_bytes(24)).decode()
        self._bare = f"n={name},r={self._nonce}".encode()
        self._signature = b""

    def first(self) -> bytes:
        return _NO_BINDING + self._bare

    def final(self, answer: bytes) -> bytes:
        """Raises NotTrusted."""
        said = _fields(answer)
        try:
            nonce, salt, iterations = said["r"], b64decode(said["s"]), int(said["i"])
        except (KeyError, ValueError):
            raise NotTrusted("the server's answer is not one of SCRAM") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise NotTrusted("the server does not take up the nonce that it was sent")
        if iterations < _LEAST_ITERATIONS:
            raise NotTrusted(f"the server asks for {iterations} iterations; {_LEAST_ITERATIONS} are the least")
        salted = hashlib.pbkdf2_hmac(self._digest, self._secret, salt, iterations)
        without_proof = b"c=" + b64encode(_NO_BINDING) + b",r=" + nonce.encode()
        message = b",".join((self._bare, answer, without_proof))
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._digest, client_key).digest(), message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return without_proof + b",p=" + b64encode(proof)

    def verify(self, answer: bytes) -> None:
        """Raises NotTrusted where the server does not know the password either."""
        if not hmac.compare_digest(_fields(answer).get("v", "").encode(), b64encode(self._signature)):
            raise NotTrusted("the server's signature is not that of a server which knows the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._digest).digest()


def _fields(answer: bytes) -> dict[str, str]:
    return {one[:1]: one[2:] for one in answer.decode(errors="replace").split(",")}
