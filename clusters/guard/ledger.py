"""The ledger: what must be undone when its owner is gone, on disk before it is done. Append-only JSON lines and a lock.

Knows undo records as data (records.py) and nothing of how they are carried out (healing.py) or by whom (guardian.py).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any, Final

from clusters.guard.errors import LedgerError, LedgerGone, LedgerHeld, NameTaken
from clusters.guard.records import FORMAT, Lifetime, Opening, Record, Scope, State, replay
from clusters.guard.undo import Undo, to_plain

RECORDS: Final = "ledger.jsonl"
LOCK: Final = "lock"
LOCK_PAUSE: Final = 0.02
"""Seconds between two tries for a lock; flock has no deadline of its own."""


class Ledger:
    """A ledger on disk. Get it by `create` (then it is held), or by `load` (to look at; `hold` it to write)."""

    def __init__(self, directory: Path, state: State) -> None:
        self.directory = directory
        self._state = state
        self._file: int | None = None
        self._lock: int | None = None
        self.held = False
        self._mutex = RLock()

    # What it says

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def id(self) -> str:
        """Unlike the name, never used again."""
        return str(self._state.header["id"])

    @property
    def lifetime(self) -> Lifetime:
        return self._state.lifetime

    @property
    def on(self) -> dict[str, str] | None:
        """The cluster the faults are on when it is not this ledger's own: {"ledger", "id"} or {"attached"}."""
        return self._state.header.get("on")

    @property
    def addresses(self) -> dict[str, str]:
        """Where the hosts that its records name are reached, as far as that is not said by the names themselves."""
        return dict(self._state.header.get("addresses") or {})

    @property
    def had_processes(self) -> bool:
        """Whether a process was ever to be killed by it."""
        return self._state.had_processes

    @property
    def damage(self) -> list[str]:
        """Sentences on its lines that nobody can read; the others hold."""
        return list(self._state.damage)

    @property
    def torn(self) -> str | None:
        """A sentence where its last line is cut off."""
        if not self._state.torn:
            return None
        return (
            f"{self.directory / RECORDS}: the last line is cut off after {self._state.torn} bytes, as its writer was "
            "killed before it did what stands there; all lines before it count"
        )

    def open_records(self) -> list[Record]:
        """What is still to be undone, oldest first."""
        with self._mutex:
            return list(self._state.records.values())

    # Getting one

    @classmethod
    def create(
        cls,
        directory: Path,
        lifetime: Lifetime = "run",
        *,
        on: Ledger | str | None = None,
        addresses: Mapping[str, str] | None = None,
    ) -> Ledger:
        """A new ledger, held. Raises NameTaken, LedgerError.

        `on`: the ledger of the kept cluster, or the name of the attached one, that the faults of this ledger are on;
        `addresses`: see the property, those of `on` where that is a ledger. It is made under another name and renamed,
        so that a ledger in its place is always whole.
        """
        directory = directory.absolute()
        header = {
            "ledger": FORMAT,
            "id": os.urandom(8).hex(),
            "lifetime": lifetime,
            "pid": os.getpid(),
            "created": round(time.time(), 3),
            "on": {"ledger": str(on.directory), "id": on.id} if isinstance(on, Ledger) else on and {"attached": on},
            "addresses": on.addresses if isinstance(on, Ledger) else dict(addresses or {}),
        }
        raw = json.dumps(header).encode() + b"\n"
        new = directory.parent / f".new-{directory.name}-{header['id']}"
        ledger = cls(directory, replay(raw))
        try:
            directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new.mkdir(mode=0o700)
            (new / LOCK).touch()
            (new / RECORDS).touch()
            ledger._open(new)
            assert ledger._lock is not None and ledger._file is not None
            fcntl.flock(ledger._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(ledger._file, raw)
            os.fsync(ledger._file)
            _sync_directory(new)
            new.rename(directory)
            _sync_directory(directory.parent)
        except OSError as error:
            ledger.release()
            shutil.rmtree(new, ignore_errors=True)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and directory.parent.is_dir():
                raise NameTaken(
                    f"the name {directory.name!r} is taken ({directory}); choose another, or take that one down first"
                ) from None
            raise LedgerError(f"cannot make a ledger in {directory}: {error.strerror}") from None
        except BaseException:
            ledger.release()
            shutil.rmtree(new, ignore_errors=True)
            raise
        ledger.held = True
        return ledger

    @classmethod
    def load(cls, directory: Path, *, keep_open: bool = False) -> Ledger:
        """Read a ledger. Raises LedgerGone, LedgerError.

        `keep_open`: its files stay at hand, so that it can be held and read even when its directory is deleted.
        """
        ledger = cls(directory.absolute(), State({}, "run"))
        ledger._open(ledger.directory)
        try:
            ledger._read()
        except BaseException:
            ledger.release()
            raise
        if not keep_open:
            ledger.release()
        return ledger

    def hold(self, deadline: float = 0) -> Ledger:
        """Take the lock within `deadline` seconds and read again what was written since. LedgerHeld, LedgerGone."""
        end = time.monotonic() + deadline
        if self._lock is None:
            self._open(self.directory)
        assert self._lock is not None
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise LedgerHeld(f"{self.directory} is held by a living process; end that one first") from None
                time.sleep(LOCK_PAUSE)
        self.held = True
        self._read()
        return self

    def is_held(self) -> bool:
        """Whether a living process, this one included, holds it."""
        if self.held:
            return True
        try:
            fd = os.open(self.directory / LOCK, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            # Shared, so that two who ask do not take each other for the holder.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def release(self) -> None:
        """Let go of lock and files; what is open stays open."""
        with self._mutex:
            self.held = False
            for fd in (self._file, self._lock):
                if fd is not None:
                    os.close(fd)
            self._file = self._lock = None

    # Writing: each call is on disk when it returns, and has changed nothing when it raises LedgerError

    def open(self, undo: Undo, scope: Scope = "resource", title: str = "") -> int:
        """Announce something to undo, before it is done; its number."""
        return self.open_many([Opening(undo, scope, title)])[0]

    def open_many(self, openings: Sequence[Opening]) -> list[int]:
        """The same for several, at the cost of one fsync."""
        with self._mutex:
            first = self._state.next_id
            ids = list(range(first, first + len(openings)))
            self._append(
                {"open": number, "scope": one.scope, "title": one.title, "undo": to_plain(one.undo)}
                for number, one in zip(ids, openings, strict=True)
            )
            return ids

    def update(self, record: int, undo: Undo) -> None:
        """Put another undo in the place of the one announced: the pid is known now."""
        self.update_many({record: undo})

    def update_many(self, undos: dict[int, Undo]) -> None:
        self._append({"update": record, "undo": to_plain(undo)} for record, undo in undos.items())

    def close(self, record: int) -> None:
        """It is undone."""
        self.close_many([record])

    def close_many(self, records: Iterable[int]) -> None:
        self._append({"close": record} for record in records)

    def keep(self) -> None:
        """From now on the resources outlive their owner."""
        self._append([{"lifetime": "kept"}])

    def remove(self, *, whatever_is_open: bool = False) -> None:
        """Delete the ledger with all that lies in its directory, and free its name. Everything must be closed."""
        with self._mutex:
            if self._state.records and not whatever_is_open:
                raise LedgerError(f"{self.directory} has {len(self._state.records)} open records; undo them first")
            if self._in_place():
                # Renamed first: a removal that is cut off must not leave half a ledger in its place.
                gone = self.directory.parent / f".gone-{self.name}-{os.urandom(6).hex()}"
                with suppress(FileNotFoundError):
                    self.directory.rename(gone)
                    shutil.rmtree(gone, ignore_errors=True)
            self.release()

    def _append(self, lines: Iterable[dict[str, Any]]) -> None:
        with self._mutex:
            if not self.held or self._file is None:
                raise LedgerError(f"{self.directory} is not held by this process; nothing can be written to it")
            parsed = list(lines)
            raw = b"".join(json.dumps(line).encode() + b"\n" for line in parsed)
            if not raw:
                return
            after = replace(self._state, records=dict(self._state.records))
            for line in parsed:
                after.apply(line)
            try:
                written = os.write(self._file, raw)
                if written < len(raw):
                    written += os.write(self._file, raw[written:])
                os.fsync(self._file)
            except OSError as error:
                with suppress(OSError):
                    os.ftruncate(self._file, self._state.whole)
                raise LedgerError(f"cannot write to {self.directory / RECORDS}: {error.strerror}") from None
            after.whole += len(raw)
            self._state = after

    def _open(self, directory: Path) -> None:
        try:
            self._lock = os.open(directory / LOCK, os.O_RDWR)
            self._file = os.open(directory / RECORDS, os.O_RDWR | os.O_APPEND)
        except (FileNotFoundError, NotADirectoryError):
            self.release()
            raise LedgerGone(f"there is no ledger in {directory}") from None
        except OSError as error:
            self.release()
            raise LedgerError(f"cannot open the ledger in {directory}: {error.strerror}") from None

    def _read(self) -> None:
        assert self._file is not None
        size = os.fstat(self._file).st_size
        state = replay(os.pread(self._file, size, 0), self.directory / RECORDS)
        if self._state.header.get("id", state.header["id"]) != state.header["id"]:
            self.release()
            raise LedgerGone(f"the ledger in {self.directory} is another one of the same name")
        self._state = state
        if self.held and self._state.whole < size:
            os.ftruncate(self._file, self._state.whole)

    def _in_place(self) -> bool:
        """Whether the directory is still this ledger's, and not that of another one of the same name."""
        if self._lock is None:
            return False
        try:
            return os.path.samestat((self.directory / LOCK).stat(), os.fstat(self._lock))
        except OSError:
            return False


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
