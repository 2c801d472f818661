"""Draws the pictures of docs/how-it-works.md: `python -m scripts.pictures`. A test fails if they are not these.

A picture has a background of its own, so it is readable on a light and on a dark page. It is narrow, for telephones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape

__all__ = ["PICTURES", "drawn"]

DOCS = Path(__file__).resolve().parent.parent / "docs"
WIDTH, STEP, TOP = 480, 46, 62
STYLE = """
  .paper { fill: #fbfbfd } text { font: 14px system-ui, sans-serif; fill: #24292f; text-anchor: middle }
  .name { font-weight: 600 } .line { stroke: #b6bfc9; stroke-dasharray: 3 3 } .box { fill: #e6ecf5; stroke: #7f93b2 }
  .arrow { stroke: #3b5b8c; stroke-width: 1.5; fill: none } .tip { fill: #3b5b8c } .work { fill: #1e8449 }
  .bad { stroke: #c0392b } .badtext { fill: #c0392b; font-weight: 600 } .goodtext { fill: #1e8449; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #20242c } text { fill: #e1e4e8 } .line { stroke: #58616d } .box { fill: #2d3748; stroke: #7f93b2 }
    .arrow { stroke: #8fb3e8 } .tip { fill: #8fb3e8 } .work { fill: #4fc07f } .bad { stroke: #ff8579 }
    .badtext { fill: #ff8579 } .goodtext { fill: #6fd59b }
  }
"""


class Step(NamedTuple):
    """A message from one column to another; or, with one column, what happens there."""

    sender: int
    receiver: int
    text: str
    kind: Literal["message", "work", "end", "good", "bad"] = "message"


class Story(NamedTuple):
    """Columns, and what passes between them, from the top to the bottom."""

    told: str
    columns: Sequence[str]
    steps: Sequence[Step]


class Questions(NamedTuple):
    """Questions that a call asks one after the other. Each has an answer that ends the call; the last has none."""

    told: str
    asked: Sequence[tuple[str, str]]


PICTURES: dict[str, Story | Questions] = {
    "how-call.svg": Questions(
        "A call looks at its own copy, joins a flight, reads Redis, asks for the lease, and only then computes",
        [
            ("a copy in this process?\n(l1_ttl)", "its value"),
            ("a flight of this key\nin this process?", "waits for its value"),
            ("a fresh value in Redis?", "its value: a hit"),
            ("a stale value?", "its value, and one\nprocess refreshes"),
            ("is the lease free?", "no: waits to be woken"),
            ("computes, stores,\nwakes all others", ""),
        ],
    ),
    "how-miss.svg": Story(
        "Worker 1 gets the lease and computes. Workers 2 to 8 wait, and get the value with the message that wakes them",
        ["worker 1", "Redis", "workers 2 to 8"],
        [
            Step(0, 1, "read"),
            Step(1, 0, "nothing"),
            Step(0, 1, "may I compute?"),
            Step(1, 0, "yes: token 41", "good"),
            Step(2, 1, "may I compute?"),
            Step(1, 2, "no: you will be woken"),
            Step(0, 0, "query", "work"),
            Step(0, 1, "value, token 41"),
            Step(1, 2, "the value", "good"),
        ],
    ),
    "how-killed.svg": Story(
        "Worker 1 is killed. Its subscription ends with it, so worker 2 gets the lease after two looks",
        ["worker 1", "Redis", "worker 2"],
        [
            Step(1, 0, "lease, token 41"),
            Step(0, 0, "killed", "end"),
            Step(2, 1, "still held?"),
            Step(1, 2, "nobody listens there"),
            Step(2, 1, "0.25 s later: still?"),
            Step(1, 2, "yours: token 42", "good"),
            Step(2, 2, "query", "work"),
            Step(2, 1, "value, token 42"),
        ],
    ),
    "how-fence.svg": Story(
        "A value whose computation began before an invalidation has a token below the fence, so it is refused",
        ["worker 1", "Redis", "worker 2"],
        [
            Step(1, 0, "lease, token 41"),
            Step(0, 0, "reads the old row", "work"),
            Step(2, 2, "UPDATE, COMMIT", "work"),
            Step(2, 1, "invalidate"),
            Step(1, 2, "done: fence 42", "good"),
            Step(0, 1, "value, token 41"),
            Step(1, 0, "refused: 41 < 42", "bad"),
            Step(2, 1, "next call"),
            Step(1, 2, "token 43: compute", "good"),
        ],
    ),
}


def drawn(picture: Story | Questions) -> str:
    """The picture as SVG."""
    height, marks = _story(picture) if isinstance(picture, Story) else _questions(picture)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(picture.told)}">\n<style>{STYLE}</style>\n'
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>\n' + "\n".join(marks) + "\n</svg>\n"
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    lines = text.split("\n")
    first = y - 9 * (len(lines) - 1)
    name = f' class="{kind}"' if kind else ""
    return "".join(
        f'<text{name} x="{x:g}" y="{first + 18 * number:g}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )


def _arrow(x: float, y: float, to_x: float, to_y: float, kind: str = "") -> str:
    """With its tip at the end. Arrows are horizontal or vertical."""
    if y == to_y:
        back = 7 if to_x < x else -7
        tip = f"{to_x:g},{y:g} {to_x + back:g},{y - 4:g} {to_x + back:g},{y + 4:g}"
    else:
        tip = f"{x:g},{to_y:g} {x - 4:g},{to_y - 7:g} {x + 4:g},{to_y - 7:g}"
    return (
        f'<path class="arrow{kind and " " + kind}" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>'
        f'<polygon class="tip" points="{tip}"/>'
    )


def _story(story: Story) -> tuple[int, list[str]]:
    gap = (WIDTH - 150) / (len(story.columns) - 1)
    places = [75 + gap * number for number in range(len(story.columns))]
    height = TOP + STEP * len(story.steps) + 10
    marks: list[str] = []
    for place, name in zip(places, story.columns, strict=True):
        marks.append(f'<path class="line" d="M{place:g} 44V{height - 10}"/>')
        marks.append(f'<rect class="box" x="{place - 62:g}" y="14" width="124" height="30" rx="5"/>')
        marks.append(_text(place, 34, name, "name"))
    for number, step in enumerate(story.steps):
        marks += _step(step, places, TOP + STEP * number)
    return height, marks


def _step(step: Step, places: Sequence[float], top: float) -> Iterator[str]:
    x, to_x, y = places[step.sender], places[step.receiver], top + 26
    if step.kind == "work":
        yield f'<rect class="work" x="{x - 66:g}" y="{top + 6}" width="132" height="26" rx="5" fill-opacity=".18"/>'
        yield _text(x, top + 24, step.text)
    elif step.kind == "end":
        yield f'<path class="arrow bad" d="M{x - 8:g} {top + 2}l16 16m0 -16l-16 16"/>'
        yield _text(x, top + 36, step.text, "badtext")
    else:
        yield _text(
            (x + to_x) / 2, y - 7, step.text, {"good": "goodtext", "bad": "badtext"}.get(step.kind, "")
        )
        yield _arrow(x, y, to_x + (5 if to_x < x else -5), y)


def _questions(questions: Questions) -> tuple[int, list[str]]:
    row, left, wide = 78, 16, 208
    middle = left + wide / 2
    marks: list[str] = []
    for number, (asked, answer) in enumerate(questions.asked):
        top = 16 + row * number
        marks.append(f'<rect class="box" x="{left}" y="{top}" width="{wide}" height="50" rx="5"/>')
        marks.append(_text(middle, top + 30, asked))
        if answer:
            marks.append(_arrow(left + wide, top + 25, left + wide + 52, top + 25))
            marks.append(_text(left + wide + 56 + 94, top + 30, answer, "goodtext"))
            marks.append(_arrow(middle, top + 50, middle, top + row))
    return 16 + row * len(questions.asked) - 10, marks


def main() -> None:
    for name, picture in PICTURES.items():
        (DOCS / name).write_text(drawn(picture), "utf-8")


if __name__ == "__main__":
    main()
