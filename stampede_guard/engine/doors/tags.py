"""For a face whose values name their own tags, as HTTP responses do: see `engine.tags.late`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.core.tags import BLANK, Versions, sealed
from stampede_guard.engine.tags.versions import VersionsAsked, ensure
from stampede_guard.errors import StoreError, StoreRefused

if TYPE_CHECKING:
    from stampede_guard.engine.loops.event_loops import Runtimes
    from stampede_guard.policy import Policy

__all__ = ["BLANK", "TagsDoor", "Versions", "VersionsAsked"]


class TagsDoor:
    """All names are complete names in the store."""

    def __init__(self, runtimes: Runtimes) -> None:
        self._runtimes = runtimes

    def ask(self, tags: tuple[str, ...]) -> VersionsAsked:
        """The versions at a time after this call, read with the other reads of this turn of the loop."""
        return VersionsAsked(self._runtimes.here(), tags)

    async def hold(
        self,
        tags: tuple[str, ...],
        versions: Versions,
        asked: VersionsAsked | None = None,
        *,
        local: bool = False,
    ) -> bool:
        """Whether a value with these versions may be served to a caller that came before this call.

        `local`: it was computed without the store. That also decides while the store is away. A store that refuses
        this client counts as a change: an invalidation could not be seen.
        """
        runtime = self._runtimes.here()
        if not local:
            try:
                if tuple(await (asked or VersionsAsked(runtime, tags)).answer()) != versions:
                    return False
            except StoreRefused:
                return False
            except StoreError:
                if not any(runtime.away_for(tag) for tag in tags):
                    return False
        return runtime.tags.allow(tags, sealed(b"", versions))

    async def ensure(self, tags: tuple[str, ...], policy: Policy) -> Versions:
        """The versions, which outlive a value of this policy. Raises `StoreError`."""
        return await ensure(self._runtimes.here(), tags, policy)

    def local(self, tags: tuple[str, ...], moment: int) -> Versions:
        """For a value computed without the store since `moment`. One that this process invalidated since is blank."""
        known = self._runtimes.here().tags
        return known.versions(tags) if known.moment == moment else (BLANK,) * len(tags)

    @property
    def moment(self) -> int:
        """Counts the invalidations of this process."""
        return self._runtimes.here().tags.moment
