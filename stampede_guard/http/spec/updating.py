"""What a 304 or the answer to a HEAD changes in a stored response (RFC 9111, 3.2, 4.3.4, 4.3.5)."""

from __future__ import annotations

from stampede_guard.http.spec.fields import is_of_one_requester, lines, without_hops
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.validation import same_representation

__all__ = ["freshened", "head_verdict", "updated_fields"]

_KEPT = frozenset({b"content-encoding", b"content-type", b"content-range", b"content-length"})
"""RFC 9111, 3.2: these describe the stored content, which was not sent again."""
_NEVER_MERGED = frozenset({b"location", b"refresh", b"trailer", b"transfer-encoding"})
"""A 304 is for one client, but merged fields are for all. So fields for its client alone are not merged
(`is_of_one_requester`), nor fields that would redirect others or change how a body is read.
"""


def updated_fields(stored: Fields, answer: Fields) -> Fields:
    """The stored fields, replaced by those in the answer. Fields that the answer lacks stay."""
    fresh = tuple(
        pair
        for pair in without_hops(answer)
        if pair[0] not in _KEPT and pair[0] not in _NEVER_MERGED and not is_of_one_requester(pair[0])
    )
    named = {name for name, _ in fresh}
    return tuple(pair for pair in stored if pair[0] not in named) + fresh


def freshened(stored: Response, answer: Response) -> Response:
    return Response(stored.status, updated_fields(stored.fields, answer.fields), stored.body)


def head_verdict(stored: Response, answer: Response) -> str:
    """RFC 9111, 4.3.5: `update` the stored response to a GET, `outdated` if it has changed, or `other`: nothing shows
    either. A length alone shows only a change: 1. A price of 10 becomes 20. 2. A monitor asks with HEAD. 3. Updated,
    the old price would be served for another lifetime, and for ever if the monitor comes in time.
    """
    if not 200 <= answer.status < 400 or answer.status in (206, 304):
        # A failed HEAD says nothing about a GET: frameworks answer 405 if only GET has a handler.
        return "other"
    if answer.status != stored.status:
        return "outdated"
    same = same_representation(stored.fields, answer.fields)
    if same == "other":
        return "outdated"
    length = lines(answer.fields, b"content-length")
    if length and length[0] != b"%d" % len(stored.body):
        return "outdated"
    return "update" if same == "same" else "other"
