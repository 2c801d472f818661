"""What the answer to a condition, to a request for the missing bytes, or to a HEAD makes of the stored response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stampede_guard.http.asking import nonce_of
from stampede_guard.http.parts.assembling import of_one_body
from stampede_guard.http.refusals import OF_ONE_CLIENT
from stampede_guard.http.requests.exchange import Exchange
from stampede_guard.http.requests.stored import Refusal, StoredResponse
from stampede_guard.http.spec.fields import first, without
from stampede_guard.http.spec.message import Response
from stampede_guard.http.spec.updating import freshened, head_verdict
from stampede_guard.http.spec.validation import same_representation

if TYPE_CHECKING:
    from stampede_guard.http.fetch import Fetch

__all__ = ["completed", "learned", "unchanged"]


async def unchanged(
    fetch: Fetch, exchange: Exchange, head: Response, old: StoredResponse | None, requested_at: float
) -> StoredResponse | Refusal | None:
    """After a 304. None: it says nothing about the stored response."""
    if not exchange.ours:
        # The client's own condition was true: it is answered as without a cache.
        return fetch.refuse(exchange, "status", personal=True)
    exchange.keep()
    if old is None or same_representation(old.fields, head.fields) == "other":
        return None
    return await fetch.kept(_updated(fetch, old, head, requested_at))


def _updated(fetch: Fetch, old: StoredResponse, head: Response, requested_at: float) -> StoredResponse:
    """RFC 9111, 4.3.4: with the fields of the answer, and with its age."""
    new = freshened(old.response, head)
    draft = fetch.judge(new, requested_at, nonce=nonce_of(old), dated=head.fields)
    if isinstance(draft, str):
        # Valid for the present waiters only; or only for the request that asked.
        fetch.personal = not fetch.requester.ordinary
        fetch.is_evidence = fetch.personal
        fetch.refusal = draft if fetch.personal else None
        told = {"fields": without(new.fields, (b"age",)), "made_by": fetch.requester.written()}
        return replace(old, **told, age=0.0, lifetime=0.0, unstorable=True, again=False)
    return replace(draft, body=old.body, part=old.part, asked=old.asked, spans=old.spans)


async def completed(
    fetch: Fetch, exchange: Exchange, head: Response, old: StoredResponse | None, requested_at: float
) -> StoredResponse | Refusal | None:
    """RFC 9111, 3.4: the stored parts and the rest, if a strong validator shows that all are of one body."""
    if old is None or head.status != 206 or not of_one_body(old.fields, head.fields):
        return None
    exchange.keep()
    await exchange.settled()
    rest, asked = exchange.whole(), first(exchange.ours, b"range") or b""
    found = None if rest is None else fetch.assembled(old, head, rest, requested_at, asked)
    return None if found is None or found.part else await fetch.kept(found)


async def learned(
    fetch: Fetch, exchange: Exchange, head: Response, old: StoredResponse | None, requested_at: float
) -> StoredResponse | Refusal:
    """RFC 9111, 4.3.5: after a HEAD."""
    if old is not None and not old.part and old.pieces is None:
        verdict = head_verdict(old.response, head)
        if verdict == "update":
            value = await fetch.kept(_updated(fetch, old, head, requested_at))
            # To its client. Without one, the application would wait for ever for a reader.
            fetch.hand_over(exchange)
            return value
        # A response for one client says nothing about what others are served.
        of_one = fetch.judge(head, requested_at, nonce="") in OF_ONE_CLIENT
        fetch.outdated = verdict == "outdated" and not of_one
    return fetch.refuse(exchange, "method", personal=True)
