"""`manage.py check`: settings under which the cache cannot do what it promises.

A LOCATION or an option that cannot work is an `ImproperlyConfigured`, which Django raises in its own checks.
"""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning
from django.db import models

from stampede_guard.integrations.django.mapped import HEIRS, MAPPED, InvalidatingQuerySet

__all__ = ["check_caches", "check_models"]

BACKEND = "stampede_guard.integrations.django.Cache"
_IN_ONE_PROCESS = ("locmem.LocMemCache", "dummy.DummyCache")


def check_caches(**_: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    ours = {alias: given for alias, given in settings.CACHES.items() if given.get("BACKEND") == BACKEND}
    for alias, given in ours.items():
        options = given.get("OPTIONS", {})
        if not options.get("namespace") and not os.environ.get("STAMPEDE_GUARD_NAMESPACE"):
            text = f"CACHES[{alias!r}] has no namespace: two projects on one server would share entries"
            hint = 'Write OPTIONS={"namespace": "shop"}.'
            found.append(Warning(text, hint=hint, id="stampede_guard.W001"))
        if options.get("serializer") == "pickle":
            text = (
                f"CACHES[{alias!r}] pickles values: anyone who can write to Redis can run code in the workers"
            )
            hint = "Store Python's own types, and remove the option."
            found.append(Warning(text, hint=hint, id="stampede_guard.W002"))
    if str(settings.CACHES.get("default", {}).get("BACKEND", "")).endswith(_IN_ONE_PROCESS):
        text = "CACHES['default'] keeps values in one process: cache_page and sessions have their herds"
        found.append(Warning(text, hint=f"Write BACKEND={BACKEND!r}.", id="stampede_guard.W003"))
    return found


def check_models(**_: Any) -> list[CheckMessage]:
    """Bulk statements send no signals."""
    seen = dict.fromkeys((*MAPPED, *HEIRS))
    found: list[CheckMessage] = [
        Warning(
            f"{model._meta.label} invalidates tags, but its bulk statements do not",
            hint="Write objects = InvalidatingQuerySet.as_manager().",
            obj=model,
            id="stampede_guard.W004",
        )
        for model in seen
        if not isinstance(model._default_manager.get_queryset(), InvalidatingQuerySet)
    ]
    found += [
        Warning(
            f"{model._meta.label} invalidates tags, but updates by its base manager do not: .add() and .set() of the "
            "reverse side of a foreign key, and on_delete=SET_NULL",
            hint="Remove Meta.base_manager_name, or let it name a manager of InvalidatingQuerySet.",
            obj=model,
            id="stampede_guard.W005",
        )
        for model in MAPPED
        if not isinstance(model._base_manager.get_queryset(), InvalidatingQuerySet)
    ]
    found += [
        Warning(
            f"{field} has on_delete=SET_DEFAULT: Django changes these rows without a signal or a query set, so "
            "their tags are not invalidated",
            hint="Write on_delete=SET(value) with the default.",
            obj=model,
            id="stampede_guard.W006",
        )
        for model in MAPPED
        for field in model._meta.local_fields
        if getattr(field.remote_field, "on_delete", None) is models.SET_DEFAULT
    ]
    return found
