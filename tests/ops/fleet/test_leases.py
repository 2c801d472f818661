"""The past of a lease, from all that kept a part of it."""

from __future__ import annotations

from typing import Any

from stampede_guard.jobs.messages import RunView
from stampede_guard.leases.messages import Audit, LeaseView, Owner
from stampede_guard.ops.fleet.leases import lease_history
from stampede_guard.stores.fleet.stream import Happening, hashed

NAME = "shop:sync"
WORKER = Owner(process="p", pod="web-1", pid=7)


def happening(at: float, kind: str, key: str = NAME, **detail: Any) -> Happening:
    return Happening(at, kind, "web-1/host/7", "sync", key, detail)


def test_the_past_of_a_lease_is_told_newest_first() -> None:
    view = LeaseView(name=NAME, token=9, held=True, owner=WORKER, granted_at=50.0)
    found = lease_history(
        NAME,
        view=view,
        audits=[
            Audit(name=NAME, token=7, by="Ada", at=30.0, now=False, owner=WORKER),
            Audit(name="shop:other", token=1, by="Ada", at=31.0, now=True),
        ],
        runs=[
            RunView(
                job=NAME, slot=1, run="r", outcome="failed", owner=WORKER, token=7, started_at=20.0, finished_at=31.5
            ),
            RunView(job=NAME, slot=2, run="", outcome="missed", finished_at=33.0),
        ],
        happened=[
            happening(19.0, "lease won", hashed(NAME), token=7, seconds=0.5),
            happening(31.0, "lease released", token=7, seconds=12.0, why="Ada asked"),
            happening(32.0, "lease won", "shop:other", token=1),
            happening(33.0, "taken over"),
        ],
    )  # fmt: skip
    assert [(one.at, one.what, one.token) for one in found] == [
        (50.0, "won", 9),
        (31.0, "released", 7),
        (30.0, "asked to release", 7),
        (20.0, "ran", 7),
        (19.0, "won", 7),
    ]
    assert [one.detail for one in found] == [
        "",
        "after 12.0 s: Ada asked",
        "held by web-1/7",
        "failed after 11.5 s",
        "waited 0.5 s",
    ]


def test_the_holder_of_now_is_told_once() -> None:
    view = LeaseView(name=NAME, token=9, held=True, owner=WORKER, granted_at=50.0)
    found = lease_history(NAME, view=view, happened=[happening(50.1, "lease won", token=9)])
    assert [one.who for one in found] == ["web-1/host/7"]


def test_lines_of_other_programs_in_the_stream_do_no_harm() -> None:
    strange = happening(1.0, "lease lost", token="x" * 99, seconds="soon", why=["no"])
    (only,) = lease_history(NAME, happened=[strange])
    assert (only.token, only.detail) == (0, "")
