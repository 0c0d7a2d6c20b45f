"""Clients for the load, of pymongo or motor: read preference, tags and driver options as the user gave them.

It knows the drivers and nothing of what the client is used for. A client of ours can always be closed within a
deadline, whatever the cluster's state.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias
from urllib.parse import quote

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandListener
from pymongo.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from pymongo.uri_parser import parse_uri

if TYPE_CHECKING:
    from harness.drivers import motor

Driver = Literal["pymongo", "motor"]
Client: TypeAlias = "AsyncMongoClient[dict[str, Any]] | motor.Client"
ReadPreference = Primary | PrimaryPreferred | Secondary | SecondaryPreferred | Nearest
OptionValue = str | int | float | bool

_TAGGED: Final[Mapping[str, type[PrimaryPreferred | Secondary | SecondaryPreferred | Nearest]]] = {
    "primaryPreferred": PrimaryPreferred,
    "secondary": Secondary,
    "secondaryPreferred": SecondaryPreferred,
    "nearest": Nearest,
}

OURS: Final = {"readpreference", "readpreferencetags", "appname"}
"""Options the harness sets itself, in lower case; as driver options they would contradict the record of the run."""


class DriverOptionError(ValueError):
    """A driver option or read preference that cannot be used; one line that says which and why."""


class ChangeStream(Protocol):
    """An open change stream of either driver."""

    @property
    def alive(self) -> bool: ...
    @property
    def resume_token(self) -> Mapping[str, Any] | None: ...
    async def try_next(self) -> Mapping[str, Any] | None: ...
    async def close(self) -> None: ...


def check_driver(driver: Driver) -> Driver:
    """Raises DriverOptionError where it is not installed."""
    if importlib.util.find_spec(driver) is None:
        raise DriverOptionError(f"{driver} is not installed; install it with: pip install 'motor>=3.7,<4'")
    return driver


def driver_versions(driver: Driver) -> dict[str, str]:
    """The driver and, of motor, the pymongo below it: as a record has it."""
    versions = {one: importlib.metadata.version(one) for one in {driver, "pymongo"}}
    return {"name": driver, "version": versions[driver], "pymongo": versions["pymongo"]}


def parse_driver_options(items: Iterable[str]) -> dict[str, OptionValue]:
    """`["socketTimeoutMS=3000"]` as `{"socketTimeoutMS": 3000}`, checked by the driver's own rules.

    Values keep the unit of the option's name. Raises DriverOptionError on what pymongo does not know or accept.
    """
    options: dict[str, OptionValue] = {}
    for item in items:
        name, equals, raw = item.partition("=")
        if not equals or not name or not raw:
            raise DriverOptionError(f"driver option: expected NAME=VALUE, found {item!r}")
        if name.lower() in OURS:
            raise DriverOptionError(f"driver option {name}: set by the harness itself; use the run's own parameter")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                parsed = parse_uri(f"mongodb://127.0.0.1/?{name}={quote(raw, safe='')}", warn=False)["options"]
        except (PyMongoError, ValueError, TypeError, Warning) as error:
            raise DriverOptionError(f"driver option {item}: {_first_sentences(error)}") from error
        options[name] = _typed(raw, next(iter(parsed.values()), raw))
    return options


def option(options: Mapping[str, OptionValue], name: str) -> OptionValue | None:
    """The option of that name, however it is spelt in upper and lower case; None where it is not given."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def milliseconds(options: Mapping[str, OptionValue], name: str, default: float | None = None) -> float | None:
    """A time limit given in milliseconds, in seconds: None for 0, which is none, and `default` where none is given."""
    given = option(options, name)
    return default if given is None else float(given) / 1000 or None


def read_preference(mode: str, tags: Mapping[str, str] | None = None) -> ReadPreference:
    """A read preference with at most one tag set. Raises DriverOptionError."""
    if mode == "primary":
        if tags:
            raise DriverOptionError("read preference primary takes no tags; use secondary, or leave the tags off")
        return Primary()
    kind = _TAGGED.get(mode)
    if kind is None:
        raise DriverOptionError(f"read preference: expected primary, {', '.join(_TAGGED)}; found {mode!r}")
    return kind(tag_sets=[dict(tags)]) if tags else kind()


def open_client(
    uri: str,
    *,
    preference: ReadPreference | None = None,
    options: Mapping[str, OptionValue] | None = None,
    listeners: Sequence[CommandListener] = (),
    app_name: str = "mongofault",
    driver: Driver = "pymongo",
) -> Client:
    """A client; it connects when first used. Raises DriverOptionError on options that do not go together."""
    keywords: dict[str, Any] = {"appname": app_name, "event_listeners": list(listeners), **(options or {})}
    if preference is not None:
        keywords["read_preference"] = preference
    try:
        if driver == "motor":
            from harness.drivers import motor

            return motor.open_client(uri, keywords)
        return AsyncMongoClient(uri, **keywords)
    except (PyMongoError, ValueError, TypeError) as error:
        raise DriverOptionError(f"driver options {dict(options or {})}: {_first_sentences(error)}") from error


async def watch(collection: Any, **options: Any) -> ChangeStream:
    """`collection.watch()` of either driver, opened: motor's is opened by its `async with`."""
    planned = collection.watch(**options)
    stream: ChangeStream = await (planned.__aenter__() if hasattr(planned, "__aenter__") else planned)
    return stream


async def start_session(client: Client) -> Any:
    """An explicit session of either driver: motor's is awaited for."""
    started: Any = client.start_session()
    return await started if inspect.isawaitable(started) else started


async def close_client(client: Client, *, deadline: float = 1.0) -> None:
    """Close a client within about twice `deadline` seconds, also when nobody answers any more.

    `close()` sends killCursors and endSessions and waits for the replies; towards a frozen member these never
    come. The second call finds nothing left to send and only closes the sockets; the third is for a machine so
    overloaded that even this took longer.
    """
    for seconds in (deadline, deadline, 5 * deadline):
        with suppress(TimeoutError, PyMongoError):
            async with asyncio.timeout(seconds):
                if isinstance(client, AsyncMongoClient):
                    await client.close()
                else:
                    from harness.drivers import motor

                    await motor.close(client)
                return


def _typed(raw: str, parsed: object) -> OptionValue:
    """The value as pymongo's keyword wants it: in the unit of its name, of the type the driver found it to be."""
    if isinstance(parsed, bool):
        return parsed
    if isinstance(parsed, int | float):
        return float(raw) if "." in raw else int(raw)
    return raw


def _first_sentences(error: BaseException) -> str:
    return " ".join(str(error).split()).removesuffix(" Refer to docstring.")
