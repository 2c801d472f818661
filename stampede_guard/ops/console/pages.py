"""Makes pages: templates, links below the mount path, forms of allowed actions, and numbers for people."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stampede_guard.ops.console.bars import Bars
from stampede_guard.ops.console.charts import Chart
from stampede_guard.ops.console.heat import heat
from stampede_guard.ops.console.screen import ConsoleScreen
from stampede_guard.ops.fleet.wording import counted

__all__ = ["Page", "rendered"]


NOTHING = "\N{EN DASH}"
"""Stands for a number that is not known."""


def number_text(number: float | None) -> str:
    """`12`, `3.4`, `12.3 k`; a dash for None."""
    if number is None:
        return NOTHING
    if number >= 1e6:
        return f"{number / 1e6:.1f} M"
    if number >= 10_000:
        return f"{number / 1e3:.1f} k"
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.2g}"


def percent_text(share: float | None) -> str:
    return NOTHING if share is None else f"{share:.1%}"


def duration_text(seconds: float | None) -> str:
    """`340 µs`, `12 ms`, `1.4 s`, `3 min`, `2.5 h`; a dash for None."""
    if seconds is None:
        return NOTHING
    for unit, length, digits in (("d", 86_400, 1), ("h", 3600, 1), ("min", 60, 0), ("s", 1, 1)):
        if seconds >= length * (2 if length > 1 else 1):
            return f"{seconds / length:.{digits}f} {unit}"
    if 1e-3 <= seconds < 1e-2:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e3:.0f} ms" if seconds >= 1e-3 or not seconds else f"{seconds * 1e6:.0f} µs"


def bytes_text(size: float | None) -> str:
    if size is None:
        return NOTHING
    for unit, length in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= length:
            return f"{size / length:.1f} {unit}"
    return f"{size:.0f} B"


def clock_text(at: float | None) -> str:
    """The time of day in UTC."""
    return NOTHING if not at else datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%H:%M:%S")


def moment_text(at: float | None) -> str:
    """Day and time in UTC."""
    return (
        NOTHING if not at else datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    )


_ENVIRONMENT = Environment(
    loader=PackageLoader("stampede_guard.ops.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "number": number_text,
    "percent": percent_text,
    "duration": duration_text,
    "bytes": bytes_text,
    "clock": clock_text,
    "moment": moment_text,
    "counted": counted,
}
_ENVIRONMENT.globals |= {"Bars": Bars, "Chart": Chart, "heat": heat}


@dataclass(frozen=True, slots=True)
class Page:
    """What templates ask. `base`: the mount path without a slash at its end. `allowed`: names of actions.

    `token`: of this session's forms. `here`: the path and query of this page, below `base`.
    """

    base: str
    screen: ConsoleScreen | None
    screens: Sequence[ConsoleScreen]
    namespace: str
    user: str
    allowed: frozenset[str]
    token: str
    here: str
    version: str

    def link(self, name: str, /, **query: Any) -> str:
        """The address of a screen: `page.link("function", name=title)`. Empty parameters are left out."""
        return self._address("" if name == "overview" else name, query)

    def json(self) -> str:
        """The address of this page's JSON twin."""
        return f"{self.base}/api/{self._named()}"

    def live(self) -> str:
        """The address of this page's stream."""
        return f"{self.base}/live/{self._named()}"

    def asset(self, name: str) -> str:
        return f"{self.base}/static/{name}?v={self.version}"

    def may(self, action: str) -> bool:
        """Whether this action is allowed here."""
        return action in self.allowed

    def form(
        self,
        *,
        action: str,
        label: str,
        kind: str = "",
        choose: dict[str, Sequence[str]] | None = None,
        typed: dict[str, int] | None = None,
        **fields: Any,
    ) -> Markup:
        """A form with one button. Empty unless the action is allowed. `choose`: fields that the user selects.
        `typed`: fields that the user types, each with its most characters.

        `kind`: `danger` for what cannot be undone.
        """
        if not self.may(action):
            return Markup("")
        return Markup(
            _ENVIRONMENT.get_template("form.html").render(
                to=f"{self.base}/act/{action}", token=self.token, back=self.here, label=label, kind=kind,
                choose=choose or {}, typed=typed or {}, fields=fields,
            )
        )  # fmt: skip

    def _named(self) -> str:
        name = "overview" if self.screen is None else self.screen.name
        query = self.here.partition("?")[2]
        return f"{name}?{query}" if query else name

    def _address(self, name: str, query: dict[str, Any]) -> str:
        given = {key: str(value) for key, value in query.items() if value not in (None, "")}
        asked = urlencode(given, errors="replace")
        return f"{self.base}/{name}" + (f"?{asked}" if asked else "")


def rendered(template: str, page: Page, **data: Any) -> str:
    """The text of a template. Half of a surrogate pair, which UTF-8 cannot have, becomes a question mark."""
    text = _ENVIRONMENT.get_template(template).render(page=page, **data)
    return text.encode("utf-8", "replace").decode()
