"""Directories that bear our marker file, and how they are removed: nothing without the marker is ever deleted.

Knows nothing of what is in them.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

from clusters.guard.errors import UndoFailed

MARKER = ".mongofault"
"""The file that makes a directory ours. It is the first thing in it and the last to go."""


def new_path(parent: Path, prefix: str) -> Path:
    """A path under `parent` that nobody has: announce its removal in the ledger, then make it."""
    return parent.absolute() / f"{prefix}{os.urandom(6).hex()}"


def make_directory(path: Path) -> Path:
    """Make the directory, readable to its owner only, with the marker in it."""
    path.mkdir(mode=0o700)
    (path / MARKER).touch()
    return path


def remove_directory(path: Path, deadline: float) -> None:
    """Remove a directory of ours and all that is in it, within `deadline` seconds; nothing there is fine.

    An empty directory without a marker goes as well: a kill between mkdir and marker, or between marker and rmdir,
    leaves one. Raises UndoFailed for anything else that bears no marker, and for a symbolic link.
    """
    end = time.monotonic() + deadline
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UndoFailed(f"{path}: expected a directory, found something else ({error.strerror}); left alone") from None
    try:
        with os.scandir(root) as entries:
            names = {entry.name for entry in entries}
        if names and MARKER not in names:
            raise UndoFailed(f"{path}: bears no {MARKER}, so it is not ours; left alone, remove it by hand if you may")
        while True:
            _empty(root, end, path, keep=MARKER)
            with suppress(FileNotFoundError):
                os.unlink(MARKER, dir_fd=root)
            try:
                path.rmdir()
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                # Somebody has just written into it. With the marker back it can be told for ours another time.
                os.close(os.open(MARKER, os.O_CREAT, 0o600, dir_fd=root))
                if time.monotonic() > end:
                    raise UndoFailed(f"{path}: somebody still writes into it; end that process first") from None
            else:
                return
    except FileNotFoundError:
        return
    except OSError as error:
        raise UndoFailed(f"{path}: cannot remove {error.filename or ''}: {error.strerror}") from None
    finally:
        os.close(root)


def _empty(directory: int, end: float, path: Path, keep: str | None = None) -> None:
    """Remove everything but `keep` from an open directory, following no link."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if time.monotonic() > end:
            raise UndoFailed(f"{path}: not all of it could be removed in the time given")
        with suppress(FileNotFoundError):
            if is_directory:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                try:
                    _empty(inner, end, path)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=directory)
            elif name != keep:
                os.unlink(name, dir_fd=directory)
