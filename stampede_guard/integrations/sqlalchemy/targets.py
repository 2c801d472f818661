"""Which sessions one call of `invalidate_on_commit` means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload
from weakref import WeakKeyDictionary

from sqlalchemy.orm import Session, scoped_session, sessionmaker

from stampede_guard.errors import Misuse
from stampede_guard.integrations.sqlalchemy.coroutines import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
)
from stampede_guard.integrations.sqlalchemy.mapping import TagMapping
from stampede_guard.integrations.sqlalchemy.pending import PendingChanges

__all__ = ["Sessions", "mappings_of", "mark", "one_session", "pending_of"]

if TYPE_CHECKING:
    Sessions: TypeAlias = (
        Session
        | AsyncSession
        | sessionmaker[Any]
        | async_sessionmaker[Any]
        | scoped_session[Any]
        | async_scoped_session[Any]
        | type[Session]
        | type[AsyncSession]
    )
else:
    Sessions = Any

_KEY = "stampede_guard.pending"
_OF_CLASS: WeakKeyDictionary[type[Any], list[TagMapping]] = WeakKeyDictionary()


def mark(target: Any, mapping: TagMapping) -> None:
    """All sessions of the target record what they change. Raises `Misuse` for what has no sessions."""
    if isinstance(target, scoped_session | async_scoped_session):
        mark(target.session_factory, mapping)
    elif isinstance(target, sessionmaker):
        _OF_CLASS.setdefault(target.class_, []).append(mapping)
    elif isinstance(target, async_sessionmaker):
        # A plain maker gives its sessions a class of their own. This kind of maker needs a subclass from us.
        given = target.kw.get("sync_session_class") or target.class_.sync_session_class
        own = type(given.__name__, (given,), {})
        target.configure(sync_session_class=own)
        _OF_CLASS.setdefault(own, []).append(mapping)
    elif isinstance(target, Session | AsyncSession):
        pending = pending_of(one_session(target), made=True)
        pending.own.append(mapping)
        pending.mappings.append(mapping)
    elif isinstance(target, type) and issubclass(target, Session):
        _OF_CLASS.setdefault(target, []).append(mapping)
    elif isinstance(target, type) and issubclass(target, AsyncSession):
        if "sync_session_class" not in vars(target):
            target.sync_session_class = type("Session", (target.sync_session_class,), {})
        _OF_CLASS.setdefault(target.sync_session_class, []).append(mapping)
    else:
        raise Misuse(
            f"invalidate_on_commit takes sessions first, not a {type(target).__name__}: give the sessionmaker, the "
            "async_sessionmaker, the scoped_session, or one session"
        )


def one_session(target: Any) -> Session:
    """The plain session that belongs to this one. Raises `Misuse` for a maker."""
    if isinstance(target, scoped_session | async_scoped_session):
        target = target()
    if isinstance(target, AsyncSession):
        return target.sync_session
    if isinstance(target, Session):
        return target
    raise Misuse(
        f"tags of one transaction belong to one session, not to a {type(target).__name__}: give the session, or map "
        "models to tags: invalidate_on_commit(sessions, guard, {Task: ('task:{id}',)})"
    )


@overload
def pending_of(session: Session, *, made: Literal[True]) -> PendingChanges: ...


@overload
def pending_of(session: Session) -> PendingChanges | None: ...


def pending_of(session: Session, *, made: bool = False) -> PendingChanges | None:
    """What this session has to invalidate. None: no mapping is for its class, and nothing was `made` for it."""
    found: PendingChanges | None = session.info.get(_KEY)
    if found is None and (made or any(kind in _OF_CLASS for kind in type(session).__mro__)):
        found = session.info[_KEY] = PendingChanges(session)
        found.mappings = mappings_of(session)
    return found


def mappings_of(session: Session) -> list[TagMapping]:
    """Those of its class and of the classes that this one inherits from."""
    return [mapping for kind in type(session).__mro__ for mapping in _OF_CLASS.get(kind, ())]
