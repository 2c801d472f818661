"""Writes docs/reference.md from the code: options, events, metrics, errors and commands.

    python -m scripts.reference

A test fails if the page is not what this writes. `scripts.site` adds the public names behind it.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer.main
from prometheus_client import CollectorRegistry, Counter

from stampede_guard import errors, events
from stampede_guard.api import environment, keywords
from stampede_guard.audit import command as audit
from stampede_guard.ops.cli.app import app
from stampede_guard.ops.observe import prometheus
from stampede_guard.policy import Limits, Policy, policy

__all__ = ["page"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"

FACES: dict[str, Any] = {
    "`locked_cache`": keywords.CacheOptions,
    "`cached_many`": keywords.ManyOptions,
    "`get_or_compute`, `single`": keywords.ValueOptions,
    "`set`": keywords.SetOptions,
    "`get`": keywords.LookOptions,
}
MEANINGS = {
    "ttl": "how long a value is fresh; not for `set`: [a function of the value](times.md#a-lifetime-from-the-value)",
    "should_cache": "[a function of the value](times.md#do-not-store-this-one); False: it is not stored",
    "tags": "[tags](invalidation.md#tags-invalidate-many-entries-with-one-write), templates for functions",
    "name": "[the name](keys.md#names-of-functions) in keys, metrics and logs",
    "key": "[which parameters are in the key](keys.md#choosing-what-is-in-the-key)",
    "unkeyed": "parameters that are not in the key; the computation stays within its request",
    "context": "[context variables](keys.md#tenants) that the computation sees, and that are in the key",
    "version": 'another number, other entries; `"auto"` [follows the code](deploying.md#rolling-deploys)',
    "pickle": "pickles what nothing else can encode: who writes to the store can then run code here",
    "secret": "[parameters that are hashed](keys.md#secrets-and-personal-data) in the key",
    "in_thread": "False: a plain function [computes in its caller's thread](calls.md#in-the-callers-own-thread)",
    "ids": "the parameter with the ids, if there are several candidates",
    "absent_ttl": "how long an id without a value is remembered as absent",
    "max_ids": "the most ids of one call of the function; more ids, more calls",
    "l1_ttl": "[a copy in the process](times.md#hits-that-do-not-leave-the-process-l1_ttl) for this long",
    "share": "[one object for all callers](values.md#which-callers-share-an-object) that set it",
}
OF_GUARDS = {
    "namespace": "the first part of all its keys; two applications on one server need two",
    "policy": "the defaults of its functions, a `Policy`",
    "limits": "what it may use in one process, a `Limits`",
    "hooks": "[functions that get each event](operators.md#observability)",
    "encryption": "[an object that encrypts what is stored](values.md#encrypting-what-is-stored)",
    "stats": "True: publishes sums for [`stampede-guard stats`](operators.md#what-the-fleet-did)",
}
VARIABLES = {
    "URL": "the store of a bare `@locked_cache`, and of the command",
    "NAMESPACE": "the namespace of a guard without `namespace=`, and of the command",
    "MODE": "[the mode](operators.md#modes) of all functions of the process",
    "MODES": "the modes of single functions: `shop.quality=bypass,*=on`",
    "LEASES_URL": "the back end of `stampede-guard leases` and `jobs`",
    "STATS": "`1`: publishes sums, as `stats=True` does",
    "NAMES_SECRET": "a key for [hashes of names](operators.md#the-console), the same in all processes and consoles",
}


def page() -> str:
    parts = [
        "# Reference\n\nWritten from the code by `python -m scripts.reference`. The other pages say when to use which. "
        "The rules of the audit have [a page of their own](audit.md#rules).",
        _options(),
        _events(),
        _metrics(),
        _errors(),
        _commands(),
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _options() -> str:
    variables = environment.policy_variables()
    of_functions = [[f"`{name}`", *rest] for name, *rest in _fields(Policy)]
    without = " and ".join(f"`{name}`" for name, *_ in _fields(Policy) if name not in variables)
    of_guards = [[f"`{name}`", *rest] for name, *rest in _fields(Limits)]
    own = sorted(
        {name for face in FACES.values() for name in face.__annotations__}
        & ({name for face in FACES.values() for name in _own(face)} | {"ttl"})
    )
    faces = [
        [
            f"`{name}`",
            MEANINGS[name],
            *("yes" if name in face.__annotations__ else "" for face in FACES.values()),
        ]
        for name in own
    ]
    guards = [[f"`{name}`", OF_GUARDS[name]] for name in keywords.GuardOptions.__annotations__]
    others = [[f"`{environment.PREFIX}{name}`", VARIABLES[name]] for name in environment._OTHERS]
    return f"""## Options

A time is a number of seconds, a text such as `"10m"`, or a `timedelta`.

### Of a function: `Policy`

Each field is a keyword of `locked_cache`, `cached_many`, `get_or_compute` and `single`. `Policy(...)` sets it for
a guard. A variable sets it for a process, such as `{variables["stale_ttl"]}`: all fields but {without} have one.
[Which one decides](operators.md#settings-from-the-environment).

{_table(["field", "default", "reason"], of_functions)}

### Of a function: other options

`locked_cache` and `cached_many` also take `guard=` and [`resources=`](fastapi.md#sessions-and-other-dependencies).

{_table(["option", "what it is", *FACES], faces)}

### Of a guard

`StampedeGuard(store, ...)` and `StampedeGuard.from_url(url, ...)` take these:

{_table(["option", "what it is"], guards)}

### Of a guard: `Limits`

They bound what one guard uses in one process, for all its functions and tenants together.

{_table(["field", "default", "reason"], of_guards)}

### Other variables of the environment

{_table(["variable", "what it sets"], others)}"""


def _own(face: Any) -> set[str]:
    """Options that are no fields of a policy, or that a face names although they are."""
    named = set(face.__annotations__)
    fields = set(policy.PolicyFields.__annotations__)
    return named - fields if fields <= named else named


def _fields(kind: type) -> Iterator[tuple[str, str, str]]:
    """Field, default with its unit, and reason, from the module's tables. A field without its row is a `KeyError`."""
    rows = re.findall(
        r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$", inspect.getdoc(policy) or "", re.MULTILINE
    )
    told = {
        name: (default.strip() + (" s" if unit.strip() == "s" else ""), reason.strip())
        for name, default, unit, reason in rows
    }
    for field in dataclasses.fields(kind):
        yield (field.name, *told[field.name])


def _paragraphs(thing: object) -> str:
    return " ".join((inspect.getdoc(thing) or "").split())


def _events() -> str:
    rows = []
    for kind in typing.get_args(events.Event):
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind))
        what, _, once = _paragraphs(kind).rpartition(" One per ")
        if not what:
            raise KeyError(f"{kind.__name__}: its docstring ends without 'One per ...'")
        rows.append([f"`{kind.__name__}`", once.removesuffix("."), fields, what])
    return f"""## Events

`hooks=(hook,)` calls `hook(event)` with each of them, at once, in the event loop. `function` is safe as a label of a
metric and in a log. `entry` contains values of parameters, so it is for operators only.
[How to use them](operators.md#observability).

{_table(["event", "one per", "fields", "what it says"], rows)}"""


def _metrics() -> str:
    registry = CollectorRegistry()
    prometheus.PrometheusHook(registry)
    told = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", inspect.getdoc(prometheus) or "", re.MULTILINE))
    rows = []
    for collector in list(registry._collector_to_names):
        (family,) = collector.describe()
        name = family.name + ("_total" if isinstance(collector, Counter) else "")
        labels, what = told[name].split(" | ", 1)
        assert labels == (", ".join(collector._labelnames) or "none"), name  # type: ignore[attr-defined]
        rows.append([f"`{name}`", family.type, labels, what])
    return f"""## Metrics

`PrometheusHook` ([how to add it](operators.md#prometheus)) has these. A function beyond {prometheus.MOST_FUNCTIONS}
counts as `other`. Histograms are in seconds or bytes, as their names say.

{_table(["metric", "type", "labels", "what"], rows)}"""


def _errors() -> str:
    rows = []
    for name in _by_tree(errors.StampedeError):
        kind = getattr(errors, name)
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        rows.append([f"`{name}`", bases, _paragraphs(kind)])
    return f"""## Errors

All are in `stampede_guard.errors`. [What becomes of an error of your own](values.md#which-callers-get-an-error).

{_table(["error", "is a", "what it says"], rows)}"""


def _by_tree(root: type) -> Iterator[str]:
    yield root.__name__
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield from _by_tree(kind)


def _commands() -> str:
    parts = [
        "## Commands\n\n`stampede-guard COMMAND`, or `python -m stampede_guard COMMAND`. Exit codes: 0 done, "
        "1 the store or the requested item has a problem, 2 the command was wrong. [What they print](operators.md)."
    ]
    for path, one in _each(typer.main.get_command(app), ("stampede-guard",)):
        parts.append(_command(path, one))
    return "\n\n".join([*parts, _audit()])


def _each(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in group.list_commands(None):
        one = group.get_command(None, name)
        if hasattr(one, "list_commands"):
            yield from _each(one, (*path, name))
        elif name != "audit":
            yield (*path, name), one


def _command(path: tuple[str, ...], one: Any) -> str:
    rows = []
    for given in one.params:
        if given.param_type_name == "argument":
            name = f"`{(given.metavar or given.name).upper()}`" + ("" if given.required else ", optional")
        else:
            name = ", ".join(f"`{option}`" for option in given.opts)
        default = given.default
        shown = "" if default in (None, False, (), []) or given.required else f"`{default}`"
        rows.append([name, shown, " ".join((given.help or "").split())])
    said = [" ".join(part.split()) for part in (one.help or "").split("\n\n")]
    return "\n\n".join(
        [f"### `{' '.join(path)}`", *said, _table(["argument or option", "default", "what it is"], rows)]
    )


def _audit() -> str:
    rows = []
    for action in audit._parser()._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        name = (
            ", ".join(f"`{option}`" for option in action.option_strings)
            or f"`{action.dest.upper()}`, optional"
        )
        if action.choices:
            name += ": " + ", ".join(map(str, action.choices))
        elif action.metavar:
            name = f"{name[:-1]} {action.metavar}`"
        rows.append([name, action.help or ""])
    return (
        "### `stampede-guard audit`\n\nFinds unlocked caches in source code. `stampede-guard explain SG201` "
        "describes a rule. [What it finds](audit.md).\n\n"
        + _table(["argument or option", "what it is"], rows)
    )


def main() -> None:
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
