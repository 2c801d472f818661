"""SG613: a stranger's token empties the cache of public keys."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.caching.clearing.keysets import fetched_for_any_token
from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module


def check(module: Module) -> Iterator[Violation]:
    for call, function in fetched_for_any_token(module):
        yield Violation(
            node=call,
            message=f"{owned_name(function)}() drops the cached keys for any token that does not fit, and fetches them "
            "again: each forged token costs a request to the issuer",
            function=owned_name(function),
        )


RULE = Rule(
    code="SG613",
    name="keys-fetched-for-any-token",
    summary="a token with an unknown `kid` or a wrong signature drops the cached key set (JWKS) and fetches it again",
    confidence="medium",
    scope="process",
    hints=((b"jwk", b"JWK"), (b"kid", b"decode", b"signing_key")),
    check=check,
    documentation=Documentation(
        what=(
            "If no cached key fits a token, the code removes the cached key set, or asks for it with "
            "`force_refresh=True`, and fetches it from the issuer. Nothing limits how often."
        ),
        why=(
            "Nobody has verified the token at that moment, so any stranger can send one. Each costs a request to the "
            "issuer, and between removal and answer, honest callers find no keys either. If the issuer then limits or "
            "refuses the requests, nobody can log in."
        ),
        example=(
            "key = keys.get(token.kid)\nif token.kid not in keys:\n    jwks_cache.pop(uri)\n"
            "    keys = await get_jwks(uri)"
        ),
        instead=(
            "if token.kid not in keys and monotonic() - fetched_at > 60:   # at most once a minute\n"
            "    keys = await fetch_jwks(uri)   # replaces the old set when the new one is there"
        ),
        unless="The tokens come from a caller who is known. Functions that look at a clock are not reported.",
        sure="Medium: what limits the requests may be in another function.",
        fix="No automatic fix: how soon new keys must be known is a decision.",
    ),
)
