"""Drops entries as an operator: with the same step as `function.invalidate()`, never with DEL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stampede_guard.api.environment import with_environment
from stampede_guard.engine.tags.late import windows_of
from stampede_guard.errors import StoreError
from stampede_guard.ops.cli.names import is_tag
from stampede_guard.policy import Policy

if TYPE_CHECKING:
    from stampede_guard.stores.protocol import Session

__all__ = ["dropped"]


async def dropped(session: Session, names: Sequence[str], namespace: str) -> int:
    """How many of these were dropped. Raises the first error if none was. A few hundred at once at most."""
    policy = with_environment(Policy())
    # First: see `engine.tags.late`.
    await asyncio.gather(*map(session.drop_tag, windows_of(names)))
    # The lifetimes only set the minimum time for which the fence is remembered. A record that lives longer stays.
    answers = await asyncio.gather(
        *(
            session.drop_tag(name) if is_tag(name, namespace) else session.invalidate(name, policy=policy)
            for name in names
        ),
        return_exceptions=True,
    )
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if len(errors) == len(names) or any(not isinstance(error, StoreError) for error in errors):
        raise errors[0]
    return len(names) - len(errors)
