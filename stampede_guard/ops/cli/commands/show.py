"""`stampede-guard show`: everything that is stored for one entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stampede_guard.errors import ComputeFailed
from stampede_guard.ops.cli.names import complete, holder_text, is_tag, state_of
from stampede_guard.ops.cli.options import Json, Namespace, Url
from stampede_guard.ops.cli.running import FAILED, answer, run
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.servers import console_at
from stampede_guard.ops.cli.texts import body_text, bytes_text, seconds_text
from stampede_guard.values.failures import decode_failure

if TYPE_CHECKING:
    from stampede_guard.stores.console.view import EntryView

__all__ = ["register"]

MOST_BODY = 64 * 1024


def register(app: typer.Typer) -> None:
    app.command()(show)


def show(
    name: Annotated[str, typer.Argument(help="The entry's complete name, as `keys` shows it.")],
    url: Url = None,
    namespace: Namespace = "default",
    value: Annotated[
        bool, typer.Option("--value", help="Also the stored value itself, up to 64 KiB of it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """All parts of one entry: value, failure, record, lease, waiters, fallback slots."""

    async def work() -> int:
        full = complete(name, namespace)
        async with console_at(url) as console:
            (view,) = await console.look([full], body_bytes=MOST_BODY if value else 0)
        if as_json:
            answer(_as_json(view, value))
        elif view.exists:
            for line in _tag(view) if is_tag(full, namespace) else _lines(view, value):
                say(line)
        else:
            say(f"{full}: nothing is stored.")
        return 0 if view.exists else FAILED

    run(work, url=url, as_json=as_json)


def _as_json(view: EntryView, value: bool) -> dict[str, Any]:
    told = {
        "state": state_of(view),
        **{name: getattr(view, name) for name in view.__dataclass_fields__ if name != "seen"},
    }
    if value and view.value is not None:
        told["body"] = body_text(view.value.body, complete=len(view.value.body) >= view.value.size)
    return told


def _tag(view: EntryView) -> list[str]:
    left = f", kept for {seconds_text(view.value.left)}" if view.value is not None else ""
    return [
        view.name,
        f"tag       a version that the entries with it carry{left}; invalidate it to invalidate them",
    ]


def _lines(view: EntryView, with_body: bool) -> list[str]:
    return [
        view.name,
        *_value(view, with_body),
        *_failure(view),
        *_record(view),
        *_lease(view),
        *_others(view),
    ]


def _value(view: EntryView, with_body: bool) -> list[str]:
    value = view.value
    if value is None:
        return ["value     none"]
    if state_of(view) == "uncacheable":
        return [f"value     none; a note that it is not to be stored, for {seconds_text(value.left)}"]
    lifetime = f"ttl {value.ttl:g} s" + (f" + {value.stale_ttl:g} s stale" if value.stale_ttl else "")
    lines = [
        f"value     {'fresh' if value.fresh else 'stale'}, gone in {seconds_text(value.left)} ({lifetime}), "
        f"{bytes_text(value.size)}, token {value.token}"
    ]
    if with_body:
        lines.append(body_text(value.body, complete=len(value.body) >= value.size))
    return lines


def _failure(view: EntryView) -> list[str]:
    if view.failure is None:
        return []
    if view.failure.passes:
        left = seconds_text(view.failure.left)
        return [f"note      not to be stored; its callers compute beside each other for {left}"]
    error = decode_failure(view.failure.body)
    # The type only: a message may contain personal data.
    kind = error.type_name if isinstance(error, ComputeFailed) else type(error).__name__
    left = seconds_text(view.failure.left)
    return [f"failure   {kind}; no caller tries again for {left}, token {view.failure.token}"]


def _record(view: EntryView) -> list[str]:
    record = view.record
    if record is None:
        return ["record    none: the next computation creates one"]
    return [
        f"record    epoch {record.epoch[:8]}, last token {record.last}, fence {record.fence}, "
        f"forgotten in {seconds_text(record.left)}"
    ]


def _lease(view: EntryView) -> list[str]:
    lease = view.lease
    if lease is None:
        return ["lease     free"]
    alive = {
        True: "its owner is there",
        False: "its owner is GONE",
        None: "whether its owner is there is unknown",
    }
    fenced = ""
    if view.record is not None and lease.token < view.record.fence:
        fenced = "; an invalidation came later, so its value will not be stored"
    who = f"{holder_text(lease)}, " if lease.holder else ""
    return [
        f"lease     held by {who}flight {lease.owner} for {seconds_text(lease.since)}, "
        f"{seconds_text(lease.left)} left; {alive[lease.alive]}, token {lease.token}{fenced}"
    ]


def _others(view: EntryView) -> list[str]:
    lines = [f"waiters   {view.waiters} processes" if view.waiters else "waiters   none"]
    return lines + [
        f"fallback  by flight {slot.owner}, slot for {seconds_text(slot.left)}" for slot in view.slots
    ]
