"""Decodes what the scripts of the runs have written."""

from __future__ import annotations

import json

from stampede_guard.jobs.messages import JobView, RunView
from stampede_guard.leases.messages import Owner
from stampede_guard.leases.redis.scripts import reading

__all__ = ["job_of", "run_of", "text_of"]


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def job_of(name: str, reply: list[bytes]) -> JobView:
    with reading(f"{name}.job", "the row of the job"):
        return _job(name, reply)


def _job(name: str, reply: list[bytes]) -> JobView:
    found = json.loads(text_of(reply[0]))
    times = ("registered_at", "scheduled_at", "seen_at", "seen_for", "last_success_at", "last_failure_at")
    return JobView(
        job=name,
        schedule=found["schedule"],
        fingerprint=found["fingerprint"],
        rhythm=float(found["rhythm"]),
        version=int(found["version"]),
        at=int(reply[1]) / 1e6,
        last_slot=int(found["last_slot"]),
        last_error=found["last_error"],
        running=tuple(sorted(map(int, reply[2:]))),
        paused_by=found.get("paused_by", ""),
        **{field: int(found.get(field, 0)) / 1e6 for field in ("paused_at", "resumed_at")},
        **{field: int(found[field]) / 1e6 for field in times},
    )


def run_of(job: str, text: bytes) -> RunView:
    with reading(f"{job}.job", "the row of a run"):
        return _run(job, text)


def _run(job: str, text: bytes) -> RunView:
    found = json.loads(text_of(text))
    return RunView(
        job=job,
        slot=int(found["slot"]),
        run=found["run"],
        outcome=found["outcome"],
        attempt=int(found["attempt"]),
        attempts=int(found["attempts"]),
        owner=Owner(**json.loads(found["owner"])) if found["owner"] else None,
        token=int(found["token"]),
        started_at=int(found["started_at"]) / 1e6,
        finished_at=int(found["finished_at"]) / 1e6,
        error=found["error"],
        counters=json.loads(found["counters"]),
    )
