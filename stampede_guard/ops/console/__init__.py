"""The console: pages about a running fleet, for a browser.

    app.mount("/ops", guard.console(allow=is_admin))
    stampede-guard console --url redis://host:6379/0 --namespace shop

It is closed unless `allow=` opens it, and read-only unless `actions=` names what may be done.

The figures are SVG that the server draws, not a canvas that a library such as uPlot draws in the browser. So every page
works without JavaScript and under a strict policy for content, no third-party code is shipped, and each figure is
tested as text. The script only replaces the parts of a page that the server has sent anew.

How to add a screen:

1. One module in `screens/` with `SCREEN = ConsoleScreen(...)` (`screen.py`). Its `data(fleet, asked)` returns a dict
   of what JSON has: numbers, strings, lists, dictionaries. `fleet` is a `Fleet` (`fleet.py`): the servers (`Console`),
   a session, the watch (`Viewer`), the guard if the console is mounted, leases. `asked` are the checked parameters of
   the query, as the `Parameter`s of the screen declare them.
2. A template with the same name in `templates/`: the content below the title. It gets the dictionary's items as
   variables, and `page` (`pages.py`): links, forms. Elements with an `id` and `data-live` are replaced while the page
   is open. They are there also without numbers: a page that is sent with other parts replaces the whole page.
3. Its line in `screens/__init__.py`, in the order of the navigation. That makes the page `/NAME`, its JSON twin
   `/api/NAME`, its stream `/live/NAME` and its part of `/api/openapi.json`.
4. What it may change: an `Action` in its `actions`, and in the template
   `{{ page.form(action="invalidate", label="Invalidate", entry=name) }}`, which is empty unless the action is allowed.
   The parts around it - right, token, audit record - are in `acting.py`. If its sentence never contains the name of
   an entry, it is in `NAMELESS` of `ops/fleet/masking.py`.

Errors: parameters that are not as declared are answered with 400 before `data` is asked. It raises `Misuse` for what is
not there, which is a 404, and lets `StoreError` pass. An action raises `Misuse` for what is wrong with its form.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from stampede_guard.errors import Misuse

__all__ = ["ConsoleApp", "Fleet", "Gate"]

_HOMES = {"ConsoleApp": "app", "Fleet": "fleet", "Gate": "gate"}
_NEEDED = ("starlette", "jinja2")


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if any(importlib.util.find_spec(needed) is None for needed in _NEEDED):
        raise Misuse("the console needs more packages: pip install '.[console]' in a clone of the repository")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
