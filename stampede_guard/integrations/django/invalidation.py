"""Invalidation with the commit: a rollback invalidates nothing, and a transaction reads its own changes.

A crash between the commit and the invalidation leaves the old values until their `ttl` ends, unless the app
`stampede_guard.integrations.django.outbox` is installed.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import operator
import string
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.db import connections, models, router, transaction
from django.db.models.signals import class_prepared, m2m_changed, post_save, pre_delete, pre_save

from stampede_guard.errors import Misuse
from stampede_guard.integrations.django.bridge import wait
from stampede_guard.integrations.django.guards import guard_of
from stampede_guard.options import takes_options

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = [
    "MAPPED",
    "InvalidatingQuerySet",
    "after_commit",
    "has_pending_invalidations",
    "invalidate_on_commit",
    "invalidated",
    "invalidates",
    "write_rows_with",
]

M = TypeVar("M", bound=type[models.Model])

_AT_ONCE = 200
_BEFORE = "stampede_guard_before"
"""What a row's state holds while it is saved: the fields that the tags name, as they were."""


class _Pending:
    """What a transaction invalidates when it commits."""

    def __init__(self, guard: StampedeGuard, using: str, cache: str) -> None:
        self.guard = guard
        self.tags: dict[str, None] = {}
        self.is_done = False
        """Within `captureOnCommitCallbacks` of a test, Django calls it and keeps it."""
        self._using, self._cache = using, cache
        self._rows: list[Any] = []
        """Of the outbox."""

    def add(self, tags: Iterable[str]) -> None:
        new = [tag for tag in dict.fromkeys(tags) if tag not in self.tags]
        self.tags.update(dict.fromkeys(new))
        if new and _OUTBOX is not None and transaction.get_connection(self._using).in_atomic_block:
            self._rows.append(_OUTBOX.write(self._using, self._cache, new))

    def __call__(self) -> None:
        self.is_done = True
        if _all_done(self.guard, self.tags) and self._rows and _OUTBOX is not None:
            _OUTBOX.delete(self._using, self._rows)


class _Outbox(NamedTuple):
    write: Callable[[str, str, Iterable[str]], Any]
    delete: Callable[[str, Iterable[Any]], None]


_OUTBOX: _Outbox | None = None


def write_rows_with(
    write: Callable[[str, str, Iterable[str]], Any], delete: Callable[[str, Iterable[Any]], None]
) -> None:
    """The app of the outbox calls this: `write(database, cache, tags)` gives the key of a row."""
    global _OUTBOX
    _OUTBOX = _Outbox(write, delete)


def invalidated(cache: str, tags: Iterable[str]) -> bool:
    """Invalidate them now. Whether the store has done all of them; not while it is away. Raises what one raised."""
    return _all_done(guard_of(cache), tags)


def _all_done(guard: StampedeGuard, given: Iterable[str]) -> bool:
    async def invalidate() -> bool:
        tags, answers = list(given), []
        for start in range(0, len(tags), _AT_ONCE):
            some = tags[start : start + _AT_ONCE]
            answers += await asyncio.gather(*(guard.invalidate_tag(tag) for tag in some))
        return all(answer == "done" for answer in answers)

    return wait(invalidate)


@takes_options("invalidate_on_commit")
def invalidate_on_commit(*tags: str, using: str | None = None, cache: str = "default") -> None:
    """Invalidate these tags when the current transaction of the database `using` commits; at once without one.

    `cache` names the cache of `settings.CACHES` whose guard has the tags. If the store refuses the invalidation, Django
    logs the error: the transaction is committed already. Raises `ImproperlyConfigured`.
    """
    guard = guard_of(cache)
    hooks = transaction.get_connection(using).run_on_commit
    last = hooks[-1] if hooks else None
    if last and isinstance(last[1], _Pending) and last[1].guard is guard and not last[1].is_done:
        if last[0] == set(transaction.get_connection(using).savepoint_ids):
            last[1].add(tags)
            return
    pending = _Pending(guard, transaction.get_connection(using).alias, cache)
    pending.add(tags)
    transaction.on_commit(pending, using=using, robust=True)


def has_pending_invalidations() -> bool:
    """Whether a transaction of this thread has changed what others still see unchanged."""
    return bool(_connections_with_pending())


def after_commit(function: Callable[[], object]) -> None:
    """Call it when the transactions of this thread that have pending invalidations have committed."""
    for connection in _connections_with_pending():
        connection.on_commit(function, robust=True)


def _connections_with_pending() -> list[Any]:
    return [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
        and any(isinstance(hook[1], _Pending) and not hook[1].is_done for hook in connection.run_on_commit)
    ]


class _Mapping:
    """The tags of one model."""

    def __init__(self, model: type[models.Model], templates: tuple[str, ...], cache: str) -> None:
        self.model, self.templates, self.cache = model, templates, cache
        self.fields = sorted({name for template in templates for name in _fields(template, model)})
        self.title = f"stampede_guard {model._meta.label} {templates}"

    def connect(self) -> None:
        """The model and the classes that inherit from it later. Signals know the exact class only."""
        title = self.title
        class_prepared.connect(self._inherited, weak=False, dispatch_uid=title)
        if self.model._meta.abstract:
            return
        MAPPED.setdefault(self.model, []).append(self)
        pre_save.connect(self._before, sender=self.model, weak=False, dispatch_uid=title)
        # Before a deletion, because columns that were not loaded cannot be read after it.
        for signal in (post_save, pre_delete):
            signal.connect(self._changed, sender=self.model, weak=False, dispatch_uid=title)
        for field in self.model._meta.local_many_to_many:
            _LINKS.append(field)
            title = f"stampede_guard {field}"
            m2m_changed.connect(
                _handler(field), sender=field.remote_field.through, weak=False, dispatch_uid=title
            )

    def _inherited(self, *, sender: Any, **_: Any) -> None:
        if self.model in sender.__bases__:
            _Mapping(sender, self.templates, self.cache).connect()

    def invalidate(self, rows: Iterable[dict[str, Any]], using: str) -> None:
        tags = dict.fromkeys(template.format(**row) for row in rows for template in self.templates)
        if tags:
            invalidate_on_commit(*tags, using=using, cache=self.cache)

    def rows_of(self, queryset: Any) -> list[dict[str, Any]]:
        """The fields that the tags name, of each row. At least one row, if there is any."""
        names = self.fields or ["pk"]
        return (
            list(queryset.order_by().values(*names).distinct())
            if self.fields
            else list(queryset.values("pk")[:1])
        )

    def rows_of_instance(self, instance: Any, using: str) -> list[dict[str, Any]]:
        row = {name: getattr(instance, name) for name in self.fields}
        if any(hasattr(value, "resolve_expression") for value in row.values()):
            # `instance.shelf = F("shelf") + 1`: only the database has the value.
            return self.rows_of(self.model._base_manager.using(using).filter(pk=instance.pk))
        return [row]

    def _before(self, *, instance: Any, using: str, raw: bool, **_: Any) -> None:
        """A row that moves from project 1 to project 2 changes both."""
        if raw or instance._state.adding or set(self.fields) <= {"pk", self.model._meta.pk.attname}:
            return
        rows = self.rows_of(self.model._base_manager.using(using).filter(pk=instance.pk))
        if transaction.get_connection(using).in_atomic_block:
            self.invalidate(rows, using)
        else:
            # Without a transaction there is no commit to wait for: others would read the old row once more.
            vars(instance._state).setdefault(_BEFORE, {})[self.title] = rows

    def _changed(self, *, instance: Any, using: str, signal: Any, **_: Any) -> None:
        before = vars(instance._state).get(_BEFORE, {}).pop(self.title, [])
        self.invalidate([*before, *self.rows_of_instance(instance, using)], using)
        if signal is pre_delete:
            for field in _LINKS:
                _invalidate_linked(field, instance, using)


MAPPED: dict[type[models.Model], list[_Mapping]] = {}
_LINKS: list[Any] = []
"""The many-to-many fields of mapped models."""


def _handler(field: Any) -> Callable[..., None]:
    """Both ends of a link that comes or goes have changed."""

    def changed(*, instance: Any, action: str, model: Any, pk_set: Any, using: str, **_: Any) -> None:
        if action == "pre_clear":
            _invalidate_linked(field, instance, using)
        elif action.startswith("post_"):
            for mapping in _mappings(type(instance)):
                mapping.invalidate(mapping.rows_of_instance(instance, using), using)
            if pk_set:
                _invalidate_rows(model, model._base_manager.using(using).filter(pk__in=pk_set), using)

    return changed


def _invalidate_linked(field: Any, instance: Any, using: str) -> None:
    """The rows that this row is linked to, on either side of the field."""
    ends = (
        (field.model, field.m2m_field_name(), field.m2m_reverse_field_name(), field.related_model),
        (field.related_model, field.m2m_reverse_field_name(), field.m2m_field_name(), field.model),
    )
    for near, to_near, to_far, far in ends:
        if isinstance(instance, near) and _mappings(far):
            links = field.remote_field.through._base_manager.using(using).filter(**{to_near: instance.pk})
            rows = far._base_manager.using(using).filter(pk__in=links.values(to_far))
            _invalidate_rows(far, rows, using)


def _invalidate_rows(model: Any, rows: Any, using: str) -> None:
    for mapping in _mappings(model):
        mapping.invalidate(mapping.rows_of(rows), using)


@takes_options("invalidates")
def invalidates(*templates: str, cache: str = "default") -> Callable[[M], M]:
    """A decorator of models: `@invalidates("project:{project_id}", "projects")`.

    A save, a deletion or a change of a many-to-many field invalidates these tags with the commit. A template names
    fields of the model. Bulk statements send no signals: give the model a manager of `InvalidatingQuerySet`. Raises
    `Misuse`.
    """
    if not templates or not all(isinstance(template, str) for template in templates):
        raise Misuse('invalidates takes tags: write @invalidates("project:{pk}") above the model')

    def decorate(model: M) -> M:
        _Mapping(model, templates, cache).connect()
        return model

    return decorate


class InvalidatingQuerySet(models.QuerySet):
    """`objects = InvalidatingQuerySet.as_manager()`: `update`, `bulk_create` and `bulk_update` invalidate, too.

    Before and after an `update`, it reads the fields that the tags name. `delete()` sends a signal for each row.
    """

    def update(self, **values: Any) -> int:
        mappings = _mappings(self.model)
        if not mappings:
            return int(super().update(**values))
        using = self.db if self._db else router.db_for_write(self.model, **self._hints)
        with transaction.atomic(using=using):
            keys = list(self.using(using).order_by().values_list("pk", flat=True))
            touched = [self.model._base_manager.using(using).filter(pk__in=part) for part in _parts(keys)]
            before = [(mapping, mapping.rows_of(rows)) for mapping in mappings for rows in touched]
            changed = super().update(**values)
            for mapping, rows in before + [
                (mapping, mapping.rows_of(rows)) for mapping in mappings for rows in touched
            ]:
                mapping.invalidate(rows, using)
        return int(changed)

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        mappings = _mappings(self.model)
        if not mappings:
            return super().bulk_create(objs, *args, **kwargs)
        given = inspect.signature(super().bulk_create).bind(list(objs), *args, **kwargs).arguments
        using = self.db if self._db else router.db_for_write(self.model, **self._hints)
        with transaction.atomic(using=using):
            existing = self._conflicting(given, using) if given.get("update_conflicts") else []
            before = [(mapping, mapping.rows_of(rows)) for mapping in mappings for rows in existing]
            made = super().bulk_create(**given)
            for mapping, rows in before + [
                (mapping, mapping.rows_of(rows)) for mapping in mappings for rows in existing
            ]:
                mapping.invalidate(rows, using)
            for mapping in mappings:
                mapping.invalidate(
                    [row for one in made for row in mapping.rows_of_instance(one, using)], using
                )
        return made

    def _conflicting(self, given: dict[str, Any], using: str) -> list[Any]:
        """The rows that this statement may update. Raises `Misuse` if they cannot be known."""
        fields = given.get("unique_fields")
        if not fields:
            raise Misuse(
                f"bulk_create(update_conflicts=True) without unique_fields= changes rows of {self.model.__name__} that "
                "are not known, so their tags cannot be invalidated: name the unique_fields, or use update()"
            )
        names = ["pk" if name == self.model._meta.pk.name else name for name in fields]
        keys = [models.Q(**{name: getattr(one, name) for name in names}) for one in given["objs"]]
        rows = self.model._base_manager.using(using)
        return [rows.filter(functools.reduce(operator.or_, part)) for part in _parts(keys, 100)]


def _mappings(model: type[models.Model]) -> list[_Mapping]:
    return MAPPED.get(model, [])


def _parts(keys: list[Any], most: int = 500) -> list[list[Any]]:
    return [keys[start : start + most] for start in range(0, len(keys), most)]


def _fields(template: str, model: type[models.Model]) -> list[str]:
    names = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    known = {"pk"} | {field.attname for field in model._meta.concrete_fields}
    for name in names:
        if name not in known:
            raise Misuse(
                f"the tag {template!r} names {{{name}}}, which is no column of {model.__name__}: write one of "
                f"{', '.join(sorted(known))}"
            )
    return names
