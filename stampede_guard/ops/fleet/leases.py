"""The past of a lease, as far as anything kept it. Pure.

| source | kept | what it tells |
|---|---|---|
| the lease itself | always | the holder of now: when it got the lease |
| audits | the newest thousand of the back end | releases that operators asked for |
| runs of the job of the same name | with the job's history | who held it, under which token, and how that ended |
| the fleet's stream (`hooks=(guard.report,)`) | while a viewer was open, one hour | all: won, released, lost |

So a lease in PostgreSQL has the past of its job and its audits. The stream is in Redis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stampede_guard.jobs.messages import RunView
from stampede_guard.leases.messages import Audit, LeaseView
from stampede_guard.leases.owner import called
from stampede_guard.stores.fleet.stream import Happening, hashed

__all__ = ["LeaseMoment", "lease_history"]

_KINDS = {"lease won": "won", "lease released": "released", "lease lost": "lost"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseMoment:
    """`at`: seconds since 1970. `what`: `won`, `released`, `lost`, `asked to release`, `released by force`, `ran`.

    `who`: a process, or an operator. `token`: 0 = not known. `detail`: more, for people.
    """

    at: float
    what: str
    who: str
    token: int = 0
    detail: str = ""


def lease_history(
    name: str,
    *,
    view: LeaseView | None = None,
    audits: Iterable[Audit] = (),
    runs: Iterable[RunView] = (),
    happened: Iterable[Happening] = (),
    most: int = 100,
) -> list[LeaseMoment]:
    """The newest `most` moments of the lease `name` (complete, with its namespace), newest first."""
    found = [*_of_stream(name, happened), *_of_audits(name, audits), *_of_runs(runs)]
    known = {one.token for one in found if one.what == "won"}
    if view is not None and view.held and view.owner is not None and view.token not in known:
        found.append(LeaseMoment(at=view.granted_at, what="won", who=called(view.owner), token=view.token))
    return sorted(found, key=lambda one: one.at, reverse=True)[:most]


def _of_stream(name: str, happened: Iterable[Happening]) -> Sequence[LeaseMoment]:
    marks = (name, hashed(name))
    return [
        LeaseMoment(
            at=one.at,
            what=_KINDS[one.kind],
            who=one.process,
            token=_token(one.detail.get("token")),
            detail=_detail(one),
        )
        for one in happened
        if one.kind in _KINDS and one.key in marks
    ]


def _detail(one: Happening) -> str:
    seconds, why = one.detail.get("seconds"), one.detail.get("why", "")
    length = f"{seconds:.1f} s" if isinstance(seconds, int | float) else ""
    told = f"waited {length}" if one.kind == "lease won" and length else f"after {length}" if length else ""
    return ": ".join(word for word in (told, why) if word and isinstance(word, str))


def _token(found: object) -> int:
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found < 1 << 63 else 0


def _of_audits(name: str, audits: Iterable[Audit]) -> Sequence[LeaseMoment]:
    return [
        LeaseMoment(
            at=audit.at,
            what="released by force" if audit.now else "asked to release",
            who=audit.by,
            token=audit.token,
            detail=f"held by {called(audit.owner)}" if audit.owner is not None else "",
        )
        for audit in audits
        if audit.name == name
    ]


def _of_runs(runs: Iterable[RunView]) -> Sequence[LeaseMoment]:
    return [
        LeaseMoment(
            at=run.started_at,
            what="ran",
            who=called(run.owner),
            token=run.token,
            detail=run.outcome
            if not run.finished_at
            else f"{run.outcome} after {run.finished_at - run.started_at:.1f} s",
        )
        for run in runs
        if run.token and run.owner is not None
    ]
