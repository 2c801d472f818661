"""The shop with a second database: `python -m tests.integrations.django.shop.two_databases DIRECTORY URL NAMESPACE`."""

from __future__ import annotations

import sys
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command

from stampede_guard.errors import Misuse
from tests.integrations.django.shop.settings import caches_at, settings_with


def main(directory: Path, url: str, namespace: str) -> None:
    given = settings_with(str(directory / "default"), caches_at(url, namespace))
    for alias in ("second", "bare"):
        given["DATABASES"][alias] = {**given["DATABASES"]["default"], "NAME": str(directory / alias)}
    given["INSTALLED_APPS"] = [*given["INSTALLED_APPS"], "stampede_guard.integrations.django.outbox"]
    settings.configure(**given)
    django.setup()
    for alias in ("default", "second"):
        call_command("migrate", run_syncdb=True, verbosity=0, database=alias)
    call_command("migrate", "auth", verbosity=0, database="bare")

    from django.contrib.auth.models import Group
    from django.db import connections, transaction

    from stampede_guard.integrations.django import invalidate_on_commit, locked_cache
    from stampede_guard.integrations.django.invalidation import _Pending
    from stampede_guard.integrations.django.outbox.models import OutboxRow
    from tests.integrations.django.shop.models import Product

    calls: list[int] = []

    @locked_cache(ttl=600, tags=("shelf:1",))
    def value() -> int:
        calls.append(1)
        return len(calls)

    def rows() -> list[int]:
        return [OutboxRow.objects.using(alias).count() for alias in ("default", "second")]

    assert value() == 1
    with transaction.atomic(using="second"):
        Product.objects.using("second").create(name="tea", shelf=1)
        print("during", rows())
    print("after", rows(), value())

    # What a process leaves that dies after its commit.
    with transaction.atomic(using="second"):
        Product.objects.using("second").create(name="milk", shelf=1)
        hooks = connections["second"].run_on_commit
        connections["second"].run_on_commit = [hook for hook in hooks if not isinstance(hook[1], _Pending)]
    print("left", rows(), value())
    call_command("stampede_guard_outbox", "--once", "--after=0")
    call_command("stampede_guard_outbox", "--once", "--after=0", "--database=second")
    print("delivered", rows(), value())

    try:
        with transaction.atomic(using="bare"):
            Group.objects.using("bare").create(name="kept with its invalidations, or not at all")
            invalidate_on_commit("shelf:1", using="bare")
    except Misuse as error:
        print("refused", Group.objects.using("bare").count(), error)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
