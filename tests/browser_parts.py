"""A page of a report in a real Chromium: what it asked for, what it complained of, where its labels and marks are."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Browser, Page, async_playwright

from clusters.errors import Refused
from harness.report.page import png

DRAWN: Final = 90_000
"""Milliseconds for a page to be drawn, on a machine with much else to do."""
TOUCH: Final = 1.0
"""Pixels by which boxes may overlap, or lie outside, and nobody sees it: they are of whole lines, not of ink."""

LABELS: Final = """() => {
  const inside = '.xtick text, .x2tick text, .ytick text, .y2tick text, .y3tick text, .xtitle, '
    + '.legendtext, .legendtitletext, .annotation-text, .bartext';
  const found = [];
  for (const [number, picture] of [...document.querySelectorAll('.picture')].entries()) {
    const frame = picture.getBoundingClientRect();
    for (const one of picture.querySelectorAll(inside)) {
      const box = one.getBoundingClientRect();
      if (!one.textContent.trim() || !box.width) continue;
      let edge = frame;
      if (one.matches('.bartext')) edge = one.closest('.point').querySelector('path').getBoundingClientRect();
      found.push({text: one.textContent, picture: number, box: [box.left, box.top, box.right, box.bottom],
                  edge: [edge.left, edge.top, edge.right, edge.bottom]});
    }
  }
  return found;
}"""
"""Every label of every picture, with its box and that of what it must not leave."""

MARKS = """style => [...document.querySelectorAll('.trace.bars, .trace.scatter')]
  .filter(one => one.__data__[0].trace.meta === style)
  .flatMap(one => [...one.querySelectorAll('.point path, path.point')])
  .map(one => { const box = one.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; })"""
"""Boxes of all marks of one style."""


@dataclass(frozen=True)
class Label:
    text: str
    picture: int
    box: tuple[float, float, float, float]
    edge: tuple[float, float, float, float]


@dataclass
class Opened:
    """A report in a browser that is offline."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    async def labels(self) -> list[Label]:
        return [
            Label(one["text"], one["picture"], tuple(one["box"]), tuple(one["edge"]))
            for one in await self.page.evaluate(LABELS)
        ]

    async def marks(self, style: str) -> list[list[float]]:
        found: list[list[float]] = await self.page.evaluate(MARKS, style)
        return found

    async def shown(self) -> list[float]:
        """The seconds from which to which the first picture shows."""
        told: list[float] = await self.page.evaluate("document.getElementById('picture-0').layout.xaxis.range")
        return [float(one) for one in told]

    async def hover(self, box: list[float]) -> str:
        """What is shown when a box is pointed at, near its beginning: on the middle of a silence lies its alarm."""
        # Off it first: nothing new is told of a mark that is pointed at already.
        await self.page.mouse.move(1, 1)
        await self.page.wait_for_selector(".hovertext", state="detached")
        await self.page.mouse.move(box[0] + 0.15 * (box[2] - box[0]), (box[1] + box[3]) / 2, steps=3)
        told = await self.page.wait_for_selector(".hovertext")
        return (
            "\n".join(await self.page.locator(".hovertext tspan, .hovertext text").all_text_contents()) if told else ""
        )


def executable() -> str:
    """A Chromium of this machine; without one the test is skipped, or fails where it must not be."""
    try:
        return png.chromium()
    except Refused as error:
        if os.environ.get("MONGOFAULT_REQUIRE_BROWSER") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    path = executable()
    async with async_playwright() as playwright:
        # Root has no sandbox; the page is our own file, and there is no network.
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened(browser: Browser, report: Path, width: int = 1280, scheme: Any = "light") -> AsyncIterator[Opened]:
    """The page as it is once everything is drawn; high enough that nothing need be scrolled to."""
    viewport: Any = {"width": width, "height": 2400}
    context = await browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)
    try:
        one = Opened(await context.new_page())
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.on(
            "console", lambda said: one.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        await one.page.goto(report.as_uri(), timeout=DRAWN)
        await one.page.wait_for_selector("html[data-drawn=yes]", timeout=DRAWN)
        yield one
    finally:
        await context.close()


def overlapping(labels: list[Label]) -> list[tuple[str, str]]:
    """Labels of one picture that lie upon each other."""
    return [
        (one.text, other.text)
        for one, other in combinations(labels, 2)
        if one.picture == other.picture
        and min(one.box[2], other.box[2]) - max(one.box[0], other.box[0]) > TOUCH
        and min(one.box[3], other.box[3]) - max(one.box[1], other.box[1]) > TOUCH
    ]


def cut(labels: list[Label]) -> list[str]:
    """Labels that go past the edge of what they stand in."""
    return [
        one.text
        for one in labels
        if one.box[0] < one.edge[0] - TOUCH
        or one.box[1] < one.edge[1] - TOUCH
        or one.box[2] > one.edge[2] + TOUCH
        or one.box[3] > one.edge[3] + TOUCH
    ]
