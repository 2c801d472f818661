"""Encodes and decodes the values in Redis: numbers, owners, places, rows and audits."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from stampede_guard.leases.core.grants import LeaseRow
from stampede_guard.leases.core.queue import Place, Queue
from stampede_guard.leases.messages import Audit, Owner

__all__ = ["audit_of", "owner_of", "place_of", "plain", "row_of", "text_of", "us"]


def us(seconds: float) -> bytes:
    return b"%d" % round(seconds * 1_000_000)


def plain(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def text_of(owner: Owner) -> bytes:
    return json.dumps(asdict(owner)).encode()


def owner_of(text: str | bytes) -> Owner:
    found = json.loads(text)
    return Owner(
        process=str(found.get("process", "")),
        pod=str(found.get("pod", "")),
        host=str(found.get("host", "")),
        pid=int(found.get("pid", 0)),
        label=str(found.get("label", "")),
    )


def place_of(holder: bytes, stored: bytes) -> Place:
    _, till, seconds, turn, called, owner = stored.split(b" ", 5)
    return Place(
        holder.decode(), owner_of(owner), int(till) / 1e6, int(seconds) / 1e6, int(turn) / 1e6, called == b"1"
    )


def row_of(text: bytes, queue: Queue) -> LeaseRow:
    found = json.loads(plain(text))
    times: dict[str, Any] = {
        field: int(found[field]) / 1e6
        for field in ("lease_ttl", "granted_at", "renewed_at", "deadline", "rest", "rests_until")
    }
    return LeaseRow(
        last=int(found["last"]),
        holder=found["holder"],
        token=int(found["token"]),
        owner=owner_of(found["owner"]),
        asked_to_leave=found["asked_to_leave"],
        queue=queue,
        **times,
    )


def audit_of(text: bytes) -> Audit:
    found = json.loads(plain(text))
    return Audit(
        name=found["name"],
        token=int(found["token"]),
        by=found["by"],
        at=int(found["at"]) / 1e6,
        now=found["now"],
        owner=owner_of(found["owner"]),
    )
