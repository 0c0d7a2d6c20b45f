"""Pages that a suite writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusters.errors import Refused


@contextmanager
def writable(page: Path) -> Iterator[None]:
    """Known to be so before minutes are spent; of a page that was not there nothing is left where none came of it.

    Raises Refused.
    """
    new = not page.exists()
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    except OSError as error:
        raise Refused(f"the finding {page} cannot be written ({error.strerror}): choose another --findings") from None
    try:
        yield
    except BaseException:
        if new:
            page.unlink(missing_ok=True)
        raise
