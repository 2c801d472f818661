"""One HTML file with everything in it, fit to be attached to a pull request."""

from __future__ import annotations

import base64
import os
from html import escape
from pathlib import Path
from string import Template

from bench.herd import plots
from bench.herd.modes import Mode
from bench.herd.story import ABOUT, Story
from bench.herd.table import FOOTNOTE, rows
from stampede_guard.ops.fleet.lanes import drawn, panel_of
from stampede_guard.ops.fleet.wording import counted

__all__ = ["write_report"]

_PAGE = Template(Path(__file__).with_name("report.html").read_text())


def write_report(story: Story, path: Path) -> Path:
    """Write the report to `path` and its main picture beside it, as PNG. Returns the picture's path.

    If the incident and its cure are both among the modes, a picture of only these two is written as well.
    """
    picture = plots.png(plots.main_picture(story))
    page = _PAGE.substitute(
        headline=escape(headline(story)),
        modes="".join(f"<dt>{mode}</dt><dd>{escape(ABOUT[mode])}</dd>" for mode in story.modes),
        table=_table(story),
        notes=_notes(story),
        main=_embedded(picture),
        lanes=_lanes(story),
        queries=_embedded(plots.png(plots.queries_per_expiry(story))),
        cost=_embedded(plots.png(plots.cost_per_hour(story))),
        setting=escape(setting(story)),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page)
    beside = path.with_suffix(".png")
    plots.save(picture, beside)
    cure: Mode = "guard-stale" if "guard-stale" in story.modes else "guard"
    if {"local", cure} <= set(story.modes):
        panels = plots.png(plots.two_panels(story, "local", cure))
        plots.save(panels, path.with_name(f"{path.stem}-two.png"))
    return beside


def headline(story: Story) -> str:
    """What an expiry cost in each mode, in one sentence."""
    parts = []
    for mode, told in story.modes.items():
        counts = told.figures.queries_per_expiry
        if counts:
            least, most = min(counts), max(counts)
            span = f"{least}" if least == most else f"{least} to {most}"
            parts.append(f"{mode} {span}")
    return f"Queries per expiry: {'; '.join(parts)}."


def setting(story: Story) -> str:
    """How this was measured, in a few sentences."""
    plan, stage = story.plan, story.stage
    return (
        f"{story.machine}; {stage.database_version}, {stage.redis_version}. {plan.workers} uvicorn workers, "
        f"{plan.load.users} users with a connection each, one request per {plan.load.period:g} s and user, entries "
        f"fresh for {plan.ttl:g} s, {plan.load.seconds:g} s per mode after all users were there. The aggregate reads "
        f"{stage.calibration.rows:,} rows ({stage.calibration.megabytes:.0f} MB) and takes "
        f"{1000 * stage.calibration.solo_seconds:.0f} ms alone, on one core: one query at a time shows as "
        f"{100 / (os.cpu_count() or 1):.0f} % of this machine's CPU, and everything else runs on it too. "
        "The production incident that this reproduces had a database CPU of 91 %, a P99 of 1.8 s and 502s; after its "
        "fix it reported 53 %, 210 ms and none."
    )


def _table(story: Story) -> str:
    head = "".join(f"<th>{mode}</th>" for mode in story.modes)
    body = "".join(
        f"<tr><th>{escape(what)}</th>{''.join(f'<td>{escape(text)}</td>' for text in texts)}</tr>"
        for what, texts in rows(story)
    )
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{table}<p class=setting>{escape(FOOTNOTE)}</p>"


def _notes(story: Story) -> str:
    return "".join(f"<p class=note>{escape(note)}</p>" for note in story.notes)


def _lanes(story: Story) -> str:
    """One expiry from inside the workers, if one was recorded."""
    told = story.modes.get("guard")
    herd = None if told is None else told.recording.herd
    if herd is None:
        return ""
    queries = counted(herd.computations, "query", "queries")
    words = f"{counted(herd.callers, 'request')} in {counted(len(herd.lanes), 'worker')}, {queries}"
    return (
        "<h2>One expiry from inside the workers (guard)</h2>"
        "<p>After the measured load, all users asked once more. Each worker told what it did, as it does for "
        "<code>stampede-guard top</code> and the console.</p>" + drawn([panel_of(herd)], told=words)
    )


def _embedded(picture: bytes) -> str:
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
