"""A process of a site with an outbox on PostgreSQL: `python -m ... ROLE`. It says on its output what it has done."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import django
from django.conf import settings

from tests.integrations.django.shop.settings import caches_at, postgres_at, settings_with

APP = "stampede_guard.integrations.django.outbox"
given = settings_with(":memory:", caches_at(os.environ["SHOP_URL"], os.environ["SHOP_NAMESPACE"]))
given["INSTALLED_APPS"].append(APP)
given["DATABASES"] = {"default": postgres_at(os.environ["SHOP_DATABASE"], "outboxed")}
settings.configure(**given)
django.setup()

from django.core.management import call_command  # noqa: E402 - it reads the settings
from django.db import transaction  # noqa: E402

from stampede_guard.integrations.django import guard_of  # noqa: E402
from stampede_guard.integrations.django.outbox import rows  # noqa: E402
from stampede_guard.integrations.django.outbox.models import OutboxRow  # noqa: E402
from tests.integrations.django.shop.models import Product  # noqa: E402


def say(what: object) -> None:
    print(what, flush=True)


def stop_at(what: str) -> Any:
    def stop(*_: Any) -> None:
        say(what)
        signal.pause()

    return stop


def migrate() -> None:
    call_command("migrate", run_syncdb=True, verbosity=0)
    call_command("makemigrations", "stampede_guard_outbox", check=True, dry_run=True, verbosity=0)
    Product.objects.bulk_create([Product(name="tea", shelf=1), Product(name="milk", shelf=2)])


def change() -> None:
    """What is in the table within a transaction, after a savepoint that was rolled back, and at the end."""
    with transaction.atomic():
        Product.objects.filter(shelf=1).update(name="coffee")
        Product.objects.filter(shelf=1).update(name="cocoa")
        inside = [row.tags for row in OutboxRow.objects.all()]
        try:
            with transaction.atomic():
                Product.objects.filter(shelf=2).update(name="cream")
                raise ValueError
        except ValueError:
            say((len(inside), OutboxRow.objects.count(), "shelf:1" in inside[0]))
    say(OutboxRow.objects.count())


def die_after_commit() -> None:
    guard_of().invalidate_tag = stop_at("committed")  # type: ignore[method-assign]
    with transaction.atomic():
        Product.objects.filter(shelf=1).update(name="coffee")


def write(number: int) -> None:
    with transaction.atomic():
        for one in range(number):
            rows.write("default", "default", [f"t{one}"])


def relay() -> None:
    call_command("stampede_guard_outbox", after=0.0, every=3600.0)


def once() -> None:
    call_command("stampede_guard_outbox", after=0.0, once=True)


def die_before_deletion() -> None:
    rows.delete = stop_at("delivered")
    once()


def stuck() -> None:
    with transaction.atomic():
        for cache, tag in (("gone", "a"), ("default", "b")):
            rows.write("default", cache, [tag])
    once()
    say(OutboxRow.objects.count())


if __name__ == "__main__":
    role, *numbers = sys.argv[1:]
    globals()[role](*map(int, numbers))
