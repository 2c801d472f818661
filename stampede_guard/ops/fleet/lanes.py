"""The picture of a herd, as SVG: a lane per worker, what lasted as bars, and marks for moments.

Texts are escaped. Colours are those of classes below `herd-figure`, for light and dark. `STYLE` has them. A page whose
CSP forbids style elements serves `STYLE` with its style sheet and draws with `styled=False`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from stampede_guard.ops.fleet.herds import FAULTS, HerdMark, HerdSpan, HerdStory
from stampede_guard.ops.fleet.wording import counted

__all__ = ["STYLE", "DrawnLane", "Panel", "drawn", "panel_of"]

WIDTH, LANE, LEFT, RIGHT, TOP, BOTTOM = 860, 22, 130, 30, 46, 34
LEGEND = 24
MOST_TICKS = 8
LONGEST_LABEL = 17
SECONDS_OF_FILM = 6.0

STYLE = """
  .herd-figure { color: #333 }
  .herd-figure text { font: 13px system-ui, sans-serif; fill: currentColor }
  .herd-figure .title { font-weight: 600 }
  .herd-figure .small { font-size: 11px; opacity: .75 }
  .herd-figure .lane { fill: #f3f3f3 }
  .herd-figure .wait { fill: #9db7d5 }
  .herd-figure .compute, .herd-figure .granted { fill: #1e8449 }
  .herd-figure .bad .compute, .herd-figure .fallback { fill: #c0392b }
  .herd-figure .failed { fill: #b9770e }
  .herd-figure .open { fill-opacity: .45; stroke: currentColor; stroke-dasharray: 3 2 }
  .herd-figure .woken, .herd-figure .renewed { fill: #1f4e79 }
  .herd-figure .published { fill: #0b3d20 }
  .herd-figure .fault { fill: #c0392b }
  .herd-figure .head { stroke: #777; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    .herd-figure { color: #ddd }
    .herd-figure .lane { fill: #2a2d34 }
    .herd-figure .wait { fill: #4f6d8f }
    .herd-figure .compute, .herd-figure .granted { fill: #4fc07f }
    .herd-figure .bad .compute, .herd-figure .fallback, .herd-figure .fault { fill: #e06c5e }
    .herd-figure .failed { fill: #e8b04f }
    .herd-figure .woken, .herd-figure .renewed { fill: #a9cdf3 }
    .herd-figure .published { fill: #d5f5e0 }
    .herd-figure .head { stroke: #999 }
  }
  .herd-figure .still { display: none }
  @media (prefers-reduced-motion: reduce) {
    .herd-figure .still { display: inline }
    .herd-figure .moving { display: none }
  }
"""

_SHAPES = {
    "granted": "granted",
    "renewed": "renewed",
    "published": "published",
    "woken": "woken",
    "found": "woken",
    "suspects": "fault",
    "no answer": "fault",
} | dict.fromkeys(FAULTS, "fault")
"""Kinds of marks that are drawn, and their shapes. The bars show the others."""
_WORDS = {
    "wait": "waits",
    "compute": "computes",
    "fallback": "fallback",
    "granted": "gets the lease",
    "renewed": "renews it",
    "published": "publishes",
    "woken": "woken",
    "fault": "fault",
}


class DrawnLane(NamedTuple):
    """`label`: beside the lane, cut if it is long. Times are in seconds from the left edge."""

    label: str
    spans: Sequence[HerdSpan]
    marks: Sequence[HerdMark] = ()


class Panel(NamedTuple):
    """`seconds`: the length of its axis. `bad`: an example of what should not happen."""

    title: str
    lanes: Sequence[DrawnLane]
    seconds: float
    bad: bool = False


def panel_of(herd: HerdStory) -> Panel:
    """The panel of one herd."""
    whom = counted(herd.callers, "caller") if herd.callers else "in the background"
    title = f"{herd.function}: {whom}, {counted(herd.computations, 'computation')}, {_time(herd.seconds)}"
    if herd.more_lanes:
        title += f"; {counted(herd.more_lanes, 'more process is', 'more processes are')} left out"
    lanes = [DrawnLane(lane.process, lane.spans, lane.marks) for lane in herd.lanes]
    return Panel(title, lanes, herd.seconds)


def drawn(
    panels: Sequence[Panel], *, told: str, styled: bool = True, moving: bool = False, legend: bool = True
) -> str:
    """The picture, with the panels below each other on one scale. `told`: the picture in words.

    `moving`: it plays like a film, except for readers who prefer less motion.
    """
    longest = max((panel.seconds for panel in panels), default=0.0) or 0.001
    scale = (WIDTH - LEFT - RIGHT) / longest
    tops, height = [], 0
    for panel in panels:
        tops.append(height)
        height += TOP + len(panel.lanes) * LANE + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + LEGEND * legend}" role="img" '
        f'class="herd-figure" aria-label="{_safe(told)}">',
        f"<title>{_safe(told)}</title>",
    ]
    if styled:
        parts.append(f"<style>{STYLE}</style>")
    for place, (panel, top) in enumerate(zip(panels, tops, strict=True)):
        parts += _panel(panel, place, top, scale, longest, moving=moving)
    if legend:
        parts += _legend(height)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, place: int, top: int, scale: float, longest: float, *, moving: bool) -> list[str]:
    end, bottom = longest * scale, top + TOP + len(panel.lanes) * LANE
    lanes = [
        f'<rect class="lane" x="{LEFT}" y="{y}" width="{end:.0f}" height="{LANE - 4}"/>'
        f'<text class="small" x="10" y="{y + 13}"><title>{_safe(lane.label)}</title>{_safe(_short(lane.label))}</text>'
        for number, lane in enumerate(panel.lanes)
        for y in (top + TOP + number * LANE,)
    ]
    ticks = [
        f'<text class="small" x="{LEFT + at * scale:.0f}" y="{bottom + 18}">{_time(at)}</text>'
        for at in _ticks(longest)
    ]
    marks = [
        mark
        for number, lane in enumerate(panel.lanes)
        for mark in _lane(lane, top + TOP + number * LANE, scale, panel.seconds)
    ]
    if moving:
        marks = _film(marks, place, top, bottom, end, bad=panel.bad)
    return [
        f'<g class="{"bad" if panel.bad else "good"}">'
        f'<text class="title" x="10" y="{top + 26}">{_safe(panel.title)}</text>',
        *lanes,
        *marks,
        *ticks,
        "</g>",
    ]


def _film(marks: list[str], place: int, top: int, bottom: int, end: float, *, bad: bool) -> list[str]:
    # What `use` shows is a tree of its own: rules match classes within it, and not those of its surroundings.
    return [
        f'<defs><g id="marks-{place}" class="herd-figure"><g class="{"bad" if bad else "good"}">',
        *marks,
        "</g></g>",
        f'<clipPath id="film-{place}"><rect x="{LEFT - 4}" y="{top}" width="{end + 8:.0f}" '
        f'height="{bottom - top + BOTTOM}">',
        f"{_moving('width', 0, end + 8)}</rect></clipPath></defs>",
        f'<use class="still" href="#marks-{place}"/>',
        f'<g class="moving"><g clip-path="url(#film-{place})"><use href="#marks-{place}"/></g>',
        f'<line class="head" y1="{top + TOP - 6}" y2="{bottom}">',
        f"{_moving('x1', LEFT, LEFT + end)}{_moving('x2', LEFT, LEFT + end)}</line></g>",
    ]


def _moving(attribute: str, start: float, end: float) -> str:
    """From start to end, then a moment to look at it, and again."""
    return (
        f'<animate attributeName="{attribute}" values="{start:.0f};{end:.0f};{end:.0f}" keyTimes="0;0.75;1" '
        f'dur="{SECONDS_OF_FILM:g}s" repeatCount="indefinite"/>'
    )


def _lane(lane: DrawnLane, y: int, scale: float, seconds: float) -> list[str]:
    # Computations lie above the callers that wait for them, and marks above both.
    found = [
        _bar(span, y, scale, seconds) for span in sorted(lane.spans, key=lambda span: span.kind != "wait")
    ]
    for mark in lane.marks:
        shape = _SHAPES.get(mark.kind)
        if shape is not None:
            told = f"{_time(mark.at)}: {mark.text}"
            found.append(_shape(shape, LEFT + mark.at * scale, y + LANE / 2 - 2, told))
    return found


def _bar(span: HerdSpan, y: int, scale: float, seconds: float) -> str:
    ended = seconds if span.ended is None else span.ended
    x, width = LEFT + span.began * scale, max(1.0, (ended - span.began) * scale)
    thin = span.kind == "wait"
    words = [span.kind, *(["failed"] if span.failed else []), *(["open"] if span.ended is None else [])]
    told = f"{_WORDS[span.kind]}, {_time(span.began)} to {'?' if span.ended is None else _time(ended)}"
    top, height = (y + 7, LANE - 18) if thin else (y + 3, LANE - 10)
    return (
        f'<rect class="{" ".join(words)}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{height}" rx="2">'
        f"<title>{_safe(told)}</title></rect>"
    )


def _shape(shape: str, x: float, y: float, told: str) -> str:
    title = f"<title>{_safe(told)}</title>"
    points: tuple[tuple[int, int], ...]
    match shape:
        case "woken":
            return f'<circle class="woken" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{title}</circle>'
        case "renewed":
            return (
                f'<rect class="renewed" x="{x - 1:.1f}" y="{y - 8:.1f}" width="2" height="16">{title}</rect>'
            )
        case "granted":
            points = ((0, -6), (5, 0), (0, 6), (-5, 0))
        case "published":
            points = ((-4, -6), (5, 0), (-4, 6))
        case _:
            points = ((0, -7), (6, 5), (-6, 5))
    path = " ".join(f"{x + right:.1f},{y + down:.1f}" for right, down in points)
    return f'<polygon class="{shape}" points="{path}">{title}</polygon>'


def _legend(top: int) -> list[str]:
    parts, x = ['<g class="good" aria-hidden="true">'], 10
    for kind, words in _WORDS.items():
        if kind in ("wait", "compute", "fallback"):
            height = LANE - 18 if kind == "wait" else LANE - 10
            parts.append(
                f'<rect class="{kind}" x="{x}" y="{top + 8 - height / 2:g}" width="16" height="{height}"/>'
            )
        else:
            parts.append(_shape(kind, x + 8, top + 8, words))
        parts.append(f'<text class="small" x="{x + 22}" y="{top + 12}">{words}</text>')
        x += 40 + 7 * len(words)
    return [*parts, "</g>"]


def _ticks(longest: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10(longest / MOST_TICKS))
    step = next(step * factor for factor in (1, 2, 5, 10, 20) if longest / (step * factor) <= MOST_TICKS)
    return [number * step for number in range(int(longest / step + 1e-9) + 1)]


def _time(seconds: float) -> str:
    # Below 10 ms with a tenth: a short herd would have several ticks with the same text.
    digits, number, unit = (2, seconds, "s") if seconds >= 1 else (seconds < 0.00995, seconds * 1000, "ms")
    return f"{f'{number:.{digits:d}f}'.rstrip('0').rstrip('.') if digits else f'{number:.0f}'} {unit}"


def _short(label: str) -> str:
    """The end of a process's name, with its pid."""
    return label if len(label) <= LONGEST_LABEL else "…" + label[1 - LONGEST_LABEL :]


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""XML 1.0, section 2.2: no document may contain these, not even escaped."""


def _safe(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
