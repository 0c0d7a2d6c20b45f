"""A scene drawn for a terminal of a given size: a few lines, none longer than it is wide. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from rich.text import Text

from harness.report.scene import OVER, WELL, Fault, Scene

STYLES: Final[Mapping[str, str]] = {
    "delivering": "green", "quiet": "dim", "open": "dim", "scanning": "yellow", "unread": "yellow", "lagging": "yellow",
    "silent": "bold red",
}  # fmt: skip
"""Of streams by their states, in the order in which they are shown."""
LABEL: Final = 9
SHARE: Final = 2
"""Of the terminal's height one part in so many is the screen's; above it the lines go by."""
LEAST, MOST = 3, 20
"""Lines, at least and at most."""


def draw(scene: Scene, width: int, height: int) -> Text:
    """At most as many lines as its share of the height has; where they do not suffice, fewer faults and alarms."""
    room = max(LEAST, min(MOST, height // SHARE))
    head = [_head(scene)]
    if scene.streams:
        head.append(_row("streams", _streams(scene.streams)))
    if scene.members:
        head.append(_row("members", _members(scene.members)))
    rest = room - len(head)
    # Alarms are what one looks for: they get what faults leave, and two thirds where both are many.
    for_faults = min(len(scene.faults), max(rest - len(scene.alarms), rest // 3))
    lines = head + _listed("faults", [_fault(one, scene.now) for one in scene.faults], for_faults)
    lines += _listed("alarms", [_alarm(one) for one in scene.alarms], room - len(lines))
    for line in lines:
        # What stands in a comment or an error may hold anything.
        line.plain = "".join(one if one.isprintable() else " " for one in line.plain)
        line.truncate(width, overflow="ellipsis")
    return Text("\n", no_wrap=True, overflow="crop").join(lines)


def _head(scene: Scene) -> Text:
    line = Text.assemble((f" {scene.phase} ", "reverse"))
    if scene.left is not None:
        line.append(f" {max(0.0, scene.left):.1f} s left")
    line.append(f"  {int(scene.now) // 60}:{int(scene.now) % 60:02}", "dim")
    for name, rate in scene.rates.items():
        line.append(f"  {rate:.{0 if rate >= 100 else 1}f} {name}/s")
    if scene.copies:
        line.append(f"  {scene.copies} copies at once", "bold")
    if scene.title:
        line.append(f"  {scene.title}", "dim")
    return line


def _row(label: str, content: Text) -> Text:
    return Text(f"{label:<{LABEL}}", "dim").append_text(content)


def _streams(streams: Mapping[str, int]) -> Text:
    ordered = [*(one for one in STYLES if one in streams), *sorted(set(streams) - set(STYLES))]
    return Text("  ").join(Text(f"{streams[one]} {one}", STYLES.get(one, "")) for one in ordered if streams[one])


def _members(members: Mapping[str, str]) -> Text:
    """Those that are not well first, those with the same complaint together; the others as a number."""
    by_state: dict[str, list[str]] = defaultdict(list)
    for name, state in members.items():
        by_state[state].append(name)
    well = by_state.pop(WELL, [])
    parts = [Text(f"{', '.join(names)}: {state}", "bold red") for state, names in by_state.items()]
    if well:
        parts.append(Text(f"{len(well)} {WELL if len(well) == 1 else 'answer'}", "green"))
    return Text("  ").join(parts)


def _fault(fault: Fault, now: float) -> Text:
    style = "bold red" if "NOT" in fault.stands else "yellow" if fault.acts else "dim"
    return Text(f"{fault.what}: {fault.stands}, {max(0.0, now - fault.since):.0f} s", style)


def _alarm(line: str) -> Text:
    # They stand under a title that says what they are.
    return Text(line.replace("ALARM ", "", 1), "dim" if line.startswith(OVER) else "red")


def _listed(label: str, items: Sequence[Text], room: int) -> list[Text]:
    """The last ones; of more than there is room for, how many."""
    if room <= 0 or not items:
        return []
    shown = list(items[-room:])
    hidden = len(items) - len(shown)
    if hidden:
        shown[0] = shown[0] + Text(f"  (and {hidden} before)", "dim")
    return [_row(label if number == 0 else "", one) for number, one in enumerate(shown)]
