"""JUnit XML, the form that CI servers read: what each case came to, in the elements that all of them know."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.etree import ElementTree

FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write (section 2.2)."""

HEAD: Final = '<?xml version="1.0" encoding="utf-8"?>\n'


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `failure`: it is not as it should be; `error`: that is not known; `skipped`: it was not tried."""

    suite: str
    name: str
    seconds: float
    failure: str | None = None
    error: str | None = None
    skipped: str | None = None
    output: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


def document(name: str, cases: Sequence[Case], *, began: str) -> str:
    """One suite called `name`, to be written as UTF-8; `began` in the form of ISO 8601."""
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name=name,
        tests=str(len(cases)),
        failures=str(sum(one.failure is not None for one in cases)),
        errors=str(sum(one.error is not None for one in cases)),
        skipped=str(sum(one.skipped is not None for one in cases)),
        time=f"{sum(one.seconds for one in cases):.3f}",
        timestamp=began,
    )
    for one in cases:
        _add(suite, one)
    ElementTree.indent(suites)
    return HEAD + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _add(suite: ElementTree.Element, one: Case) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=_clean(one.suite), name=_clean(one.name), time=f"{one.seconds:.3f}"
    )
    if one.properties:
        properties = ElementTree.SubElement(case, "properties")
        for name, value in one.properties.items():
            ElementTree.SubElement(properties, "property", name=name, value=_clean(value))
    for kind, message in (("failure", one.failure), ("error", one.error), ("skipped", one.skipped)):
        if message is not None:
            ElementTree.SubElement(case, kind, message=_clean(message.partition("\n")[0])).text = _clean(message)
    if one.output:
        ElementTree.SubElement(case, "system-out").text = _clean(one.output)


def _clean(text: str) -> str:
    return FORBIDDEN.sub("\ufffd", text)
