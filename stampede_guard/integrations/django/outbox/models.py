"""The table of the outbox."""

from __future__ import annotations

from django.db import models

__all__ = ["OutboxRow"]


class OutboxRow(models.Model):
    """Tags to invalidate, of one cache of `settings.CACHES`."""

    cache = models.TextField()
    tags = models.JSONField()
    written_at = models.DateTimeField(db_index=True)

    class Meta:
        app_label = "stampede_guard_outbox"
        db_table = "stampede_guard_django_outbox"
