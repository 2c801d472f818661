"""Models whose changes invalidate tags: by the signals of Django, and by the statements of query sets.

Django itself updates rows without a signal, through the base manager of a model. So a mapped model has one that sees
these statements.
"""

from __future__ import annotations

import functools
import inspect
import operator
import string
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.db import models, router, transaction
from django.db.models.options import Options
from django.db.models.signals import class_prepared, m2m_changed, post_save, pre_delete, pre_save
from django.utils.functional import cached_property

from stampede_guard.errors import Misuse
from stampede_guard.integrations.django.invalidation import invalidate_on_commit
from stampede_guard.options import takes_options

__all__ = ["HEIRS", "MAPPED", "InvalidatingQuerySet", "invalidates"]

M = TypeVar("M", bound=type[models.Model])

_BEFORE = "stampede_guard_before"
"""What a row's state holds while it is saved: the fields that the tags name, as they were."""


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
        _replace_base_manager(self.model)
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
            mapping = _Mapping(sender, self.templates, self.cache)
            mapping.connect()
            if self.model._meta.abstract:
                mapping.connect_parents()

    def connect_parents(self) -> None:
        """A row of a multi-table child is in the tables of its parents, too. Their changes do not name the child."""
        if self.model._meta.proxy or self.model._meta.abstract:
            return
        for parent in self.model._meta.get_parent_list():
            HEIRS.setdefault(parent, []).append(self)
            pre_save.connect(_before_heirs, weak=False, dispatch_uid="stampede_guard heirs")
            post_save.connect(_changed_heirs, weak=False, dispatch_uid="stampede_guard heirs")

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

    def _before(self, *, instance: Any, using: str, **_: Any) -> None:
        """A row that moves from project 1 to project 2 changes both. A new object may replace a row of its key."""
        if not _has_key(instance) or set(self.fields) <= {"pk", self.model._meta.pk.attname}:
            return
        self.remember(instance, self.model._base_manager.using(using).filter(pk=instance.pk), using)

    def remember(self, instance: Any, rows: Any, using: str) -> None:
        before = self.rows_of(rows)
        if transaction.get_connection(using).in_atomic_block:
            self.invalidate(before, using)
        else:
            # Without a transaction there is no commit to wait for: others would read the old row once more.
            vars(instance._state).setdefault(_BEFORE, {})[self.title] = before

    def pop_before(self, instance: Any) -> list[dict[str, Any]]:
        before: list[dict[str, Any]] = vars(instance._state).get(_BEFORE, {}).pop(self.title, [])
        return before

    def _changed(self, *, instance: Any, using: str, signal: Any, raw: bool = False, **_: Any) -> None:
        before = self.pop_before(instance)
        if raw and self.model._meta.parents:
            # A fixture has the columns of the parents in rows of their own.
            now = self.rows_of(self.model._base_manager.using(using).filter(pk=instance.pk))
        else:
            now = self.rows_of_instance(instance, using)
        self.invalidate([*before, *now], using)
        if signal is pre_delete:
            for field in _LINKS:
                _invalidate_linked(field, instance, using)


MAPPED: dict[type[models.Model], list[_Mapping]] = {}
HEIRS: dict[type[models.Model], list[_Mapping]] = {}
"""By model: the tags that only its multi-table children have."""
_LINKS: list[Any] = []
"""The many-to-many fields of mapped models."""


class _MappedOptions(Options):
    """The `_meta` of a mapped model. Its base manager invalidates, too.

    Django uses it for updates of its own that send no signal: `project.tasks.add(task)`, and `on_delete=SET_NULL`. A
    manager among those of the model would be a change for `makemigrations`.
    """

    @cached_property  # type: ignore[untyped-decorator]
    def base_manager(self) -> Any:
        given: Any = Options.base_manager.func(self)
        if given.name != "_base_manager":  # a manager that `Meta.base_manager_name` chooses
            return given
        manager: Any = InvalidatingQuerySet.as_manager()
        manager.name, manager.model, manager.auto_created = given.name, given.model, given.auto_created
        return manager


def _replace_base_manager(model: type[models.Model]) -> None:
    meta: Any = model._meta
    if type(meta) is Options:  # otherwise the check W005 says what is unseen
        meta.__class__ = _MappedOptions
        vars(meta).pop("base_manager", None)


def _has_key(instance: Any) -> bool:
    """Whether a row may have the key of this object. An expression stands for a key that the database makes."""
    key = instance.pk
    parts = key if isinstance(key, tuple) else (key,)
    return not any(part is None or hasattr(part, "resolve_expression") for part in parts)


def _heirs_in(rows: Any, model: Any, using: str) -> list[tuple[_Mapping, Any]]:
    """Mappings of multi-table children of a model, and what these rows are there."""
    model = model._meta.concrete_model
    column = f"{model._meta.pk.name}__in"
    return [
        (heir, heir.model._base_manager.using(using).filter(**{column: rows.order_by().values("pk")}))
        for heir in HEIRS.get(model, [])
    ]


def _heirs_of(instance: Any, using: str) -> list[tuple[_Mapping, Any]]:
    model = type(instance)
    if model._meta.concrete_model not in HEIRS or not _has_key(instance):
        return []
    return _heirs_in(model._base_manager.using(using).filter(pk=instance.pk), model, using)


def _before_heirs(*, instance: Any, using: str, **_: Any) -> None:
    for mapping, rows in _heirs_of(instance, using):
        mapping.remember(instance, rows, using)


def _changed_heirs(*, instance: Any, using: str, **_: Any) -> None:
    for mapping, rows in _heirs_of(instance, using):
        mapping.invalidate([*mapping.pop_before(instance), *mapping.rows_of(rows)], using)


def _handler(field: Any) -> Callable[..., None]:
    """Both ends of a link that comes or goes have changed."""

    def changed(*, instance: Any, action: str, model: Any, pk_set: Any, using: str, **_: Any) -> None:
        if action == "pre_clear":
            _invalidate_linked(field, instance, using)
        elif action.startswith("post_"):
            for mapping in _mappings(type(instance)):
                mapping.invalidate(mapping.rows_of_instance(instance, using), using)
            for mapping, rows in _heirs_of(instance, using):
                mapping.invalidate(mapping.rows_of(rows), using)
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
        if isinstance(instance, near) and _is_seen(far):
            links = field.remote_field.through._base_manager.using(using).filter(**{to_near: instance.pk})
            rows = far._base_manager.using(using).filter(pk__in=links.values(to_far))
            _invalidate_rows(far, rows, using)


def _invalidate_rows(model: Any, rows: Any, using: str) -> None:
    for mapping, of_mapping in _touched([rows], model, using):
        mapping.invalidate(mapping.rows_of(of_mapping), using)


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
        mapping = _Mapping(model, templates, cache)
        mapping.connect()
        mapping.connect_parents()
        return model

    return decorate


class InvalidatingQuerySet(models.QuerySet):
    """`objects = InvalidatingQuerySet.as_manager()`: `update`, `bulk_create` and `bulk_update` invalidate, too.

    Before and after an `update`, it reads the fields that the tags name. `delete()` sends a signal for each row.
    """

    def update(self, **values: Any) -> int:
        if not _is_seen(self.model):
            return int(super().update(**values))
        using = self.db if self._db else router.db_for_write(self.model, **self._hints)
        with transaction.atomic(using=using):
            keys = list(self.using(using).order_by().values_list("pk", flat=True))
            parts = [self.model._base_manager.using(using).filter(pk__in=part) for part in _parts(keys)]
            touched = _touched(parts, self.model, using)
            before = [(mapping, mapping.rows_of(rows)) for mapping, rows in touched]
            changed = super().update(**values)
            for mapping, rows in before + [(mapping, mapping.rows_of(rows)) for mapping, rows in touched]:
                mapping.invalidate(rows, using)
        return int(changed)

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        if not _is_seen(self.model):
            return super().bulk_create(objs, *args, **kwargs)
        given = inspect.signature(super().bulk_create).bind(list(objs), *args, **kwargs).arguments
        using = self.db if self._db else router.db_for_write(self.model, **self._hints)
        with transaction.atomic(using=using):
            existing = self._conflicting(given, using) if given.get("update_conflicts") else []
            touched = _touched(existing, self.model, using)
            before = [(mapping, mapping.rows_of(rows)) for mapping, rows in touched]
            made = super().bulk_create(**given)
            for mapping, rows in before + [(mapping, mapping.rows_of(rows)) for mapping, rows in touched]:
                mapping.invalidate(rows, using)
            for mapping in _mappings(self.model):
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


def _is_seen(model: type[models.Model]) -> bool:
    return model in MAPPED or model._meta.concrete_model in HEIRS


def _touched(parts: list[Any], model: type[models.Model], using: str) -> list[tuple[_Mapping, Any]]:
    """The mappings of rows of a model, and of what these rows are in its multi-table children."""
    own = [(mapping, rows) for mapping in _mappings(model) for rows in parts]
    return own + [heir for rows in parts for heir in _heirs_in(rows, model, using)]


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
