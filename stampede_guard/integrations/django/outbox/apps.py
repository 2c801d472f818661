"""The Django app of the outbox."""

from __future__ import annotations

from django.apps import AppConfig

from stampede_guard.integrations.django.invalidation import write_rows_with
from stampede_guard.integrations.django.outbox.rows import delete, write

__all__ = ["OutboxConfig"]


class OutboxConfig(AppConfig):
    name = "stampede_guard.integrations.django.outbox"
    label = "stampede_guard_outbox"
    verbose_name = "stampede_guard: outbox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        write_rows_with(write, delete)
