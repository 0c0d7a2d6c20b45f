"""Reports of real runs in a real browser: what is there, what is told when one points at it, that all can be read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="the browser tests need Playwright's Python package")
from playwright.async_api import Browser

from aftermath import Place
from browser_parts import Opened, chromium, cut, executable, opened, overlapping
from harness.record import Record
from harness.report import page
from harness.report.page import png
from stall_parts import Outcome, outcome

pytestmark = [pytest.mark.live, pytest.mark.slow]

RUNS = {
    "stall": ("run", "update-lookup-stall", "--streams", "3", "--hold", "9s"),
    "overlap": ("run", "retry-overlap", "--fault", "fail-point", "--consumers", "2", "--retry", "fixed(0s,1)"),
    "stale": ("run", "stale-shard"),
    "chaos": ("chaos", "--duration", "12s", "--every", "5s", "--streams", "2"),
}
SCREENS = ((1280, "light"), (1920, "dark"))
WIDE = 20
"""Pixels of a bar that is easily pointed at."""
LANES = {
    "stall": ["phase", "events", "f1 freeze shard0-2", "s1", "s2", "s3", "config-0", "router", "shard0-1", "shard1-2"],
    "overlap": ["phase", "f1 fail-point rs0-0", "orders/0/0", "orders/1/0"],
    "stale": ["phase", "refresh", "first find B (stale shard)", "probe B", "find A (other shard)"],
    "chaos": ["phase", "s1", "s2", "config-0", "shard0-0", "shard1-2"],
}
MARKS = {
    "stall": ["phase", "proven", "delivering", "silent", "hung", "answers", "no answer"],
    "overlap": ["proven", "unknown", "send", "resend", "copy", "overlap", "dead"],
    "stale": ["held", "waited", "did not wait", "logged"],
    "chaos": ["proven", "delivering", "answers"],
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Outcome]]:
    """A run of each kind, all at once on this machine."""
    executable()
    place = Place(tmp_path_factory.mktemp("reports"))
    try:
        started = {kind: place.start(*arguments, "--seed", "7") for kind, arguments in RUNS.items()}
        yield {kind: outcome(place, process) for kind, process in started.items()}
    finally:
        place.end()


@pytest.fixture(scope="module")
async def browser(reports: dict[str, Outcome]) -> AsyncIterator[Browser]:
    async with chromium() as one:
        yield one


def _file(done: Outcome) -> Path:
    return done.record / "report.html"


@pytest.mark.parametrize("kind", RUNS)
def test_the_last_line_of_a_run_names_its_report_which_is_under_6_mb(kind: str, reports: dict[str, Outcome]) -> None:
    done = reports[kind]
    last = done.out.splitlines()[-1]
    assert last.startswith("report: "), done.out + done.err
    assert last.endswith(f"{done.record.name}/report.html")
    assert _file(done).stat().st_size < 6_000_000


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
@pytest.mark.parametrize("kind", RUNS)
async def test_every_lane_is_there_and_its_labels_can_be_read(
    kind: str, width: int, scheme: str, reports: dict[str, Outcome], browser: Browser, tmp_path: Path
) -> None:
    async with opened(browser, _file(reports[kind]), width, scheme) as report:
        labels = await report.labels()
        assert {label.text for label in labels} >= set(LANES[kind])
        for style in MARKS[kind]:
            assert await report.marks(style), style
        assert overlapping(labels) == []
        assert cut(labels) == []
        assert await _least_contrast(report) >= 4.5
        assert await report.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        await report.page.screenshot(path=tmp_path / f"{kind}-{width}-{scheme}.png")
        assert report.complaints == []
        assert report.requests == [_file(reports[kind]).as_uri()]


async def test_labels_that_overlap_or_are_cut_are_found(reports: dict[str, Outcome], browser: Browser) -> None:
    async with opened(browser, _file(reports["stall"])) as report:
        await report.page.evaluate("Plotly.relayout('picture-0', {'margin.l': 40})")
        assert "f1 freeze shard0-2" in cut(await report.labels())
        await report.page.evaluate(
            "Plotly.relayout('picture-0', {'annotations[0].y': 0.999, 'yaxis.range': [2000, 0]})"
        )
        assert ("s1", "s2") in overlapping(await report.labels())


async def test_a_silent_bar_tells_its_hung_getmore_with_the_opid(reports: dict[str, Outcome], browser: Browser) -> None:
    streams = reports["stall"].result["streams"]
    async with opened(browser, _file(reports["stall"])) as report:
        told = [await report.hover(box) for box in await report.marks("silent") if box[2] - box[0] > WIDE]
    for stream in streams:
        opid = f"getMore opid {stream['getmore']['opid']} on shard0-1"
        (own,) = [one for one in told if f"{stream['stream']}: silent" in one and opid in one]
        assert "waits for shard0-2" in own


async def test_all_lanes_zoom_together_and_a_double_click_goes_back(
    reports: dict[str, Outcome], browser: Browser
) -> None:
    async with opened(browser, _file(reports["stall"])) as report:
        before, (left, top, right, bottom) = await report.shown(), (await report.marks("proven"))[0]
        silent = await report.marks("silent")
        mouse = report.page.mouse
        await mouse.move(left, top + 60)
        await mouse.down()
        await mouse.move(right, top + 62, steps=5)
        await mouse.up()
        await report.page.wait_for_function(
            "r => document.getElementById('picture-0').layout.xaxis.range[0] > r", arg=before[0]
        )
        after = await report.shown()
        assert before[0] < after[0] < after[1] < before[1]
        (zoomed,) = await report.marks("proven")
        assert zoomed[2] - zoomed[0] > 1.2 * (right - left)
        assert (zoomed[1], zoomed[3]) == pytest.approx((top, bottom), abs=1)
        wider = [one[2] - one[0] for one in await report.marks("silent")]
        assert max(wider) > max(one[2] - one[0] for one in silent)
        await mouse.dblclick(left + 5, top + 60)
        await report.page.wait_for_function(
            "r => document.getElementById('picture-0').layout.xaxis.range[0] == r", arg=before[0]
        )
        assert await report.shown() == before


async def test_the_switch_turns_light_into_dark_and_back(reports: dict[str, Outcome], browser: Browser) -> None:
    async with opened(browser, _file(reports["stall"]), scheme="dark") as report:
        found = []
        for _ in range(3):
            found.append(await report.page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert await _least_contrast(report) >= 4.5
            await report.page.click("#theme")
        assert found == ["rgb(20, 24, 29)", "rgb(255, 255, 255)", "rgb(20, 24, 29)"]


async def test_on_paper_it_is_black_on_white_whatever_the_screen_had(
    reports: dict[str, Outcome], browser: Browser
) -> None:
    async with opened(browser, _file(reports["stall"]), scheme="dark") as report:
        await report.page.emulate_media(media="print")
        assert await report.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert await _least_contrast(report) >= 7
        hatched = await report.page.evaluate("document.querySelectorAll('.picture pattern').length")
        assert hatched > 0


@pytest.fixture(scope="module")
def comparison(reports: dict[str, Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stall beside the chaos."""
    path = tmp_path_factory.mktemp("beside") / "comparison.html"
    pair = [page.draw(Record.at(reports[kind].record)) for kind in ("stall", "chaos")]
    page.write(pair, path)
    return path


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_two_runs_beside_each_other_can_be_read(
    width: int, scheme: str, comparison: Path, browser: Browser
) -> None:
    async with opened(browser, comparison, width, scheme) as report:
        labels = await report.labels()
        assert {label.picture for label in labels} == {0, 1}
        assert overlapping(labels) == []
        assert cut(labels) == []
        assert await report.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert report.complaints == []
        assert report.requests == [comparison.as_uri()]


async def test_runs_beside_each_other_zoom_in_step_by_the_time_of_their_first_fault(
    comparison: Path, browser: Browser
) -> None:
    async with opened(browser, comparison) as report:
        origins = await report.page.evaluate(
            "[0, 1].map(n => document.getElementById('picture-' + n).layout.meta.origin)"
        )
        assert origins[0] != origins[1]
        await report.page.evaluate("at => Plotly.relayout('picture-1', {'xaxis.range': [at - 1, at + 3]})", origins[1])
        await report.page.wait_for_function(
            "wanted => Math.abs(document.getElementById('picture-0').layout.xaxis.range[1] - wanted) < 1e-6",
            arg=origins[0] + 3,
        )
        assert await report.shown() == pytest.approx([origins[0] - 1, origins[0] + 3])


def test_the_picture_is_a_png_too(reports: dict[str, Outcome], tmp_path: Path) -> None:
    path = tmp_path / "stall.png"
    png.write(page.draw(Record.at(reports["stall"].record)), path)
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(head[16:20], "big") == png.WIDTH * png.SCALE


async def _least_contrast(report: Opened) -> float:
    """Of all labels against the page, as the web's guidelines count it: 4.5 is what small text must have."""
    found: float = await report.page.evaluate(
        """() => {
          const light = colour => {
            const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(one => one / 255)
              .map(one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const page = light(getComputedStyle(document.body).backgroundColor);
          const labels = document.querySelectorAll('.xtick text, .ytick text, .legendtext, .annotation-text, .xtitle');
          return Math.min(...[...labels].map(one => {
            const [low, high] = [light(getComputedStyle(one).fill), page].sort((a, b) => a - b);
            return (high + 0.05) / (low + 0.05);
          }));
        }"""
    )
    return found
