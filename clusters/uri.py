"""The URI of a cluster that exists already, and the secrets in it: this is the one home of what must not be shown.

A password is refused on the command line, where everybody on the machine can read it (`ps`): it comes in MONGODB_URI or
in a file. Knows no connection but the name service's, for mongodb+srv.
"""

from __future__ import annotations

import importlib.util
import os
import re
import ssl
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pymongo.common import URI_OPTIONS_VALIDATOR_MAP
from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from clusters.errors import Refused
from clusters.wire.access import Access
from clusters.wire.scram import MECHANISMS

VARIABLE: Final = "MONGODB_URI"
SRV: Final = "mongodb+srv://"
NAME_SERVICE_DEADLINE: Final = 10.0
"""Seconds for the answer of the name service."""

_PASSWORD = re.compile(r"(?s)(mongodb(?:\+srv)?://[^:@]*):.*@")
_OPTION = re.compile(r"(?i)\b(\w*(?:password|properties|secret|token)\w*)=[^&]*")
"""Of drivers' options that hold secrets: tlsCertificateKeyFilePassword, authMechanismProperties, proxyPassword."""
SHAPE: Final = (
    "the URI cannot be used: expected mongodb://[USER:PASSWORD@]HOST[:PORT][,...]/[?OPTION=VALUE&...] "
    "with special characters in user and password written as %XX"
)
HOW_ELSE: Final = f"put the URI into {VARIABLE}, or into a file of yours for --uri-file"


def redacted(text: str) -> str:
    """Any text without the secrets of the URIs in it. Rather too much than too little is taken out."""
    return _OPTION.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", text))


@dataclass(frozen=True, slots=True)
class Uri:
    """`full` is for drivers alone; `str()` and `repr()` show no secret. Hosts are `address:port`."""

    full: str = field(repr=False)
    shown: str
    hosts: tuple[str, ...]
    set_name: str | None
    access: Access = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    """For a driver that is connected to one of the members alone: who we say we are, and TLS."""

    def __str__(self) -> str:
        return self.shown

    @property
    def secret(self) -> bool:
        """Whether there is anything in it that must not be shown."""
        return self.full != self.shown


def parse(text: str) -> Uri:
    """Raises Refused, in words that hold nothing of the text: a password with an unescaped '@' is part of it."""
    text = text.strip()
    if text.startswith(SRV) and importlib.util.find_spec("dns") is None:
        raise Refused(f"{SRV} needs dnspython to ask for the hosts: pip install dnspython, or name them (mongodb://)")
    found = _parsed(text)
    if found is None:
        raise Refused(_what_is_wrong(text))
    options = {name.lower(): value for name, value in found["options"].items()}
    if any(port is None for _, port in found["nodelist"]):
        raise Refused("a socket file is no address for others: expected HOST:PORT")
    return Uri(
        full=text,
        shown=redacted(text),
        hosts=tuple(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in found["nodelist"]),
        set_name=options.get("replicaset"),
        access=_access(found, options),
        options=_login(found, options),
    )


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # options that the driver would rather have called otherwise
            return parse_uri(text, connect_timeout=NAME_SERVICE_DEADLINE)
    except (PyMongoError, ValueError, TypeError, OSError):
        return None


def _what_is_wrong(text: str) -> str:
    head, _, options = text.partition("?")
    if text.startswith(SRV):
        return "the URI cannot be used, or the name service does not find its hosts"
    # Past an '@' it could be part of a password.
    if "@" not in options and _parsed(head) is not None:
        for one in options.split("&"):
            if _parsed(f"mongodb://localhost/?{one}") is None:
                return (
                    f"the URI cannot be used: the driver does not accept option {one.partition('=')[0]}, or its value"
                )
    return SHAPE


def driver_options(text: str, wanted: Collection[str]) -> dict[str, Any]:
    """Those of the `wanted` options that a URI sets, or a piece of one (`socketTimeoutMS=3000&w=1`), under their names.

    Values are the driver's: times in seconds. Nothing else is read, looked up or opened, no password and no file; an
    option that the driver does not know is refused, as it might be one of these misspelt. Raises Refused.
    """
    text = text.strip()
    scheme, found, rest = text.partition("://")
    if found and f"{scheme}://" not in ("mongodb://", SRV):
        raise Refused(SHAPE)
    options = rest.partition("?")[2] if found else text.removeprefix("?")
    # What is before an '@' could be part of a password.
    if "@" in options:
        raise Refused(SHAPE)
    names = {name.lower(): name for name in wanted}
    values: dict[str, Any] = {}
    for one in filter(None, options.split("&")):
        name = one.partition("=")[0]
        if not name.isidentifier():
            raise Refused(SHAPE)
        if name.lower() not in URI_OPTIONS_VALIDATOR_MAP:
            raise Refused(f"the driver knows no option {name}: leave it out, or spell it as in a URI (NAME=VALUE&...)")
        if name.lower() in names:
            parsed = _parsed(f"mongodb://localhost/?{one}")
            if parsed is None:
                raise Refused(
                    f"the driver does not accept the value of option {name}: expected it as in a URI, where times are "
                    "milliseconds, e.g. socketTimeoutMS=5000"
                )
            values[names[name.lower()]] = next(iter(parsed["options"].values()), None)
    return values


def given(argument: str | None, file: Path | None) -> Uri | None:
    """What was given on the command line, in a file or in MONGODB_URI, the first of them. Raises Refused."""
    if argument is not None and file is not None:
        raise Refused("a URI and --uri-file say the same thing: leave one of them out")
    if argument is not None:
        if redacted(argument) != argument:
            raise Refused(f"a password on the command line is seen by all who look at ps: {HOW_ELSE}")
        return parse(argument)
    if file is not None:
        try:
            return parse(file.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"--uri-file {file}: {getattr(error, 'strerror', None) or 'expected text'}") from None
    text = os.environ.get(VARIABLE)
    return parse(text) if text else None


def needed(argument: str | None, file: Path | None) -> Uri:
    """The same, where there must be one. Raises Refused."""
    uri = given(argument, file)
    if uri is None:
        raise Refused(f"no URI: give one without a password, or {HOW_ELSE}")
    return uri


def _access(found: Mapping[str, Any], options: Mapping[str, Any]) -> Access:
    mechanism = options.get("authmechanism")
    if mechanism is not None and mechanism not in MECHANISMS:
        raise Refused(f"authMechanism {mechanism}: expected {' or '.join(MECHANISMS)}")
    if found["username"] is not None and not found["password"]:
        raise Refused(f"the URI has a user and no password: {HOW_ELSE}")
    return Access(
        user=found["username"],
        password=found["password"] or "",
        source=options.get("authsource") or found["database"] or "admin",
        mechanism=mechanism,
        tls=_tls(options) if options.get("tls") else None,
    )


def _login(found: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in options.items() if name.startswith("tls")}
    # The driver takes these for one and the same thing said twice.
    if "tlsinsecure" in kept:
        kept = {name: value for name, value in kept.items() if not name.startswith("tlsallow") and "ocsp" not in name}
    if found["username"] is None:
        return kept
    login = {
        "username": found["username"],
        "password": found["password"],
        "authSource": options.get("authsource") or found["database"] or "admin",
    }
    mechanism = options.get("authmechanism")
    return {**kept, **login, **({"authMechanism": mechanism} if mechanism else {})}


def _tls(options: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("tlscafile"))
        if options.get("tlsallowinvalidhostnames") or options.get("tlsallowinvalidcertificates"):
            context.check_hostname = False
        if options.get("tlsallowinvalidcertificates"):
            context.verify_mode = ssl.CERT_NONE
        if options.get("tlscertificatekeyfile"):
            # Without one for it, openssl would ask the terminal for a password.
            password = options.get("tlscertificatekeyfilepassword") or ""
            context.load_cert_chain(options["tlscertificatekeyfile"], password=password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        raise Refused(f"tlsCAFile or tlsCertificateKeyFile cannot be used: {reason}") from None
    return context
