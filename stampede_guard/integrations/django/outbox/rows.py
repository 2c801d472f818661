"""The rows of the outbox: written in a transaction, deleted after it, and delivered when their process has died."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.db import OperationalError, ProgrammingError, connections, transaction
from django.db.models import F
from django.db.models.functions import Now

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.integrations.outboxes import AT_ONCE, CHANNEL, Stuck

__all__ = ["Relay", "delete", "write"]

TABLE = "stampede_guard_django_outbox"


def _rows() -> Any:
    """This module is imported before Django has its models."""
    return apps.get_model("stampede_guard_outbox", "OutboxRow").objects


def write(using: str, cache: str, tags: Iterable[str]) -> Any:
    """In the current transaction, so in the database of the data. The key of the row. Raises `Misuse` without a
    table there.
    """
    try:
        row = _rows().using(using).create(cache=cache, tags=list(tags), written_at=Now())
    except (ProgrammingError, OperationalError) as error:
        if not _has_no_table(error):
            raise
        raise Misuse(
            f"the database {using!r} has no table of the outbox, which is in INSTALLED_APPS: run `manage.py migrate "
            f"--database={using}`, and keep `manage.py stampede_guard_outbox --database={using}` running"
        ) from error
    connection = connections[using]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, cache])
    return row.pk


def _has_no_table(error: Exception) -> bool:
    """In the words of PostgreSQL, MySQL and SQLite."""
    said = str(error)
    return TABLE in said and any(
        words in said for words in ("does not exist", "doesn't exist", "no such table")
    )


def delete(using: str, keys: Iterable[Any]) -> None:
    _rows().using(using).filter(pk__in=list(keys))._raw_delete(using)


class Relay:
    """Delivers what others have left. Relays of several processes do not take the same row."""

    def __init__(self, using: str, after: float, invalidate: Callable[[str, Iterable[str]], bool]) -> None:
        self._using, self._after, self._invalidate = using, after, invalidate
        self._stuck = Stuck()

    def look(self) -> int:
        """Deliver the oldest rows, at most 100. How many were delivered."""
        connection = connections[self._using]
        # A database may have closed it meanwhile.
        connection.close_if_unusable_or_obsolete()
        with transaction.atomic(using=self._using):
            # Compared by the clock that wrote it. `-after` on the right would not use the index of SQLite.
            due = _rows().using(self._using).filter(written_at__lte=Now() - timedelta(seconds=self._after))
            rows = due.exclude(pk__in=self._stuck.rows()).order_by(F("written_at"))
            if connection.features.has_select_for_update_skip_locked:
                rows = rows.select_for_update(skip_locked=True)
            done = []
            for row in rows[:AT_ONCE]:
                try:
                    if not self._invalidate(row.cache, row.tags):
                        break  # while Redis is away, the rows stay where they are
                except StoreError:
                    break
                except Exception as error:
                    self._stuck.add(row.pk, error)
                else:
                    done.append(row.pk)
            delete(self._using, done)
        return len(done)
