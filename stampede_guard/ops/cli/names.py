"""Names of entries as operators write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stampede_guard.engine.tags.templates import tag_key
from stampede_guard.errors import Misuse
from stampede_guard.http.requests.stored import is_note
from stampede_guard.leases.messages import Owner
from stampede_guard.leases.owner import called
from stampede_guard.values.keys.explained import AFTER_NAMESPACE, bare, explain_name

if TYPE_CHECKING:
    from stampede_guard.stores.console.view import EntryLease, EntryView, State

__all__ = ["complete", "holder_text", "is_tag", "state_of"]

_WITHOUT_NAMESPACE = re.compile(AFTER_NAMESPACE)


def complete(name: str, namespace: str) -> str:
    """The complete name, given with or without the namespace, or as `{name}:v`, as Redis shows it. Raises `Misuse`."""
    name = bare(name)
    if not name.startswith(f"{namespace}:") and _WITHOUT_NAMESPACE.match(name):
        name = f"{namespace}:{name}"
    told = explain_name(name, namespace=namespace)
    if told.kind == "tag" and told.complete and told.parts[0].text:
        # The operator may have typed characters that names escape, or accents in another form.
        return f"{told.namespace}:{tag_key(told.parts[0].text)}"
    return told.name


def holder_text(lease: EntryLease) -> str:
    """The process that holds a lease, in the same words as `stampede-guard leases show`."""
    place = lease.holder
    if place is None:
        return ""
    name = called(Owner(process="", pod=place.pod, host=place.host, pid=place.pid))
    return name if place.host in ("", place.pod) else f"{name} on {place.host}"


def is_tag(name: str, namespace: str) -> bool:
    """Whether a complete name is that of a tag's version. A tenant may be in between."""
    try:
        return explain_name(name, namespace=namespace).kind == "tag"
    except Misuse:
        return False


def state_of(view: EntryView) -> State:
    """As the view says; but the HTTP cache stores its notes of responses that may not be stored as values."""
    noted = view.value is not None and is_note(view.value.body, view.value.size)
    return "uncacheable" if noted else view.state
