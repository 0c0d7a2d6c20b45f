"""Faults on members and their set, the harness killed with -9: see `crash_matrix`."""

from __future__ import annotations

import pytest

import crash_matrix
from crash_matrix import Site, cell, cells

pytestmark = pytest.mark.live


@pytest.mark.parametrize(("form", "moment", "healer"), cells(crash_matrix.ON_MEMBERS))
def test_nothing_is_left(site: Site, form: str, moment: str, healer: str) -> None:
    cell(site, form, moment, healer)
