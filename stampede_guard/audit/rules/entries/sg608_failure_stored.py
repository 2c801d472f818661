"""SG608: a value that stands in for a failure is stored as if it were the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.across.behind import unlocked_uses
from stampede_guard.audit.caching.entries.standins import StandIn, kept, returned, stored
from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.caching.judging.worth import is_aside
from stampede_guard.audit.finding import Level
from stampede_guard.audit.prefilter import STORES, Hint, Text
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration, decorations
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.programs import is_started_by_hand

# For these, None is an answer like any other.
_KEEP_NONE = re.compile(
    r"^functools\.(?:lru_cache|cache)\b|^cachetools\.(?:func\.)?(?:cached|ttl_cache|lru_cache)\b|^async_lru\.alru_cache\b"
    r"|^fastapi_cache\.decorator\.cache\b|^asyncache\.cached\b"
    r"|^cache_memoize\.cache_memoize\b|^diskcache\.\w*(?:Cache|Index)\(\)\.memoize\b"
)
# These ask again if they find None.
_FORGET_NONE = re.compile(r"^(?:flask_cach\w*|aiocache)\b")
# A decorator of a library, or of the project, which is followed.
_DECORATES = re.compile(rb"@[ \t(]*(?:\w+\.)*(?:\w{0,80}[cC]ache\w{0,80}|memoize\b)")
_RENAMED: Hint = (
    re.compile(rb"cached?[ \t]+as[ \t]"),
    re.compile(rb"memoize[ \t]+as[ \t]"),
    re.compile(rb"=[ \t(]*(?:\w+\.)*(?:lru_cache|alru_cache|ttl_cache|cached|memoize)\b"),
    re.compile(rb"=[ \t(]*(?:functools\.)?cache[ \t]*[\r\n#;(]"),
    b"method_decorator",
)
# The words of exceptions that another attempt may not raise.
_PASSING: Hint = (
    *(
        b"Exception",
        b"except:",
        b"Timeout",
        b"ConnectError",
        b"ConnectionError",
        b"RequestError",
        b"HTTPError",
    ),
    *(
        b"HTTPStatusError",
        b"URLError",
        b"SSLError",
        b"TransportError",
        b"ClientError",
        b"ClientResponseError",
    ),
    *(
        b"BotoCoreError",
        b"OperationalError",
        b"DatabaseError",
        b"DBAPIError",
        b"SQLAlchemyError",
        b"InterfaceError",
    ),
    *(b"RateLimitError", b"OpenAIError", b"RpcError", b"Unavailable"),
)
# Dicts and values of the process.
_KEEPS = (
    re.compile(rb"ache\w{0,80}\["),
    re.compile(rb"ACHE\w{0,80}\["),
    re.compile(rb"global [^\n]{0,200}(?:ache|ACHE)"),
)
_FAILS = re.compile(rb"except")
_LET_THROUGH = frozenset("response_filter unless skip_cache_func condition cache_filter".split())


def _may_apply(text: Text) -> bool:
    if text.traces.may_fill or text.has_any(_RENAMED):
        return True
    data = text.data
    return any(b"except" in data[one.start : one.end] for one in text.definitions.under(_DECORATES)) or (
        text.has_any(_KEEPS) and any(text.definitions.share(keeps, _FAILS) for keeps in _KEEPS)
    )


def check(module: Module) -> Iterator[Violation]:
    # Few wait for what only administrators or a monitor ask, and they ask again.
    level: Level = "information" if is_aside(module) else "warning"
    own = {decoration.node for decoration, _name in unlocked_uses(module)}
    for decoration in decorations(module):
        if decoration.node in own:
            found = returned(decoration.function)
            found = None if found is None or found.is_falsy else found  # it may ask again if it finds nothing
        else:
            found = _of_a_decorator(module, decoration)
        if found is not None:
            yield Violation(
                node=decoration.node,
                message=f"{decoration.tail} keeps the {found.said} that {decoration.function.name}() returns after a "
                "failure: one failed attempt answers for the whole lifetime",
                level=level,
                function=decoration.function.name,
            )
    for fill, found in stored(module):
        yield Violation(
            node=fill.write.call,
            message=f"{owned_name(fill.function)}() also stores the {found.said} of a failure (line "
            f"{found.handler.lineno}): one failed attempt answers for the whole lifetime",
            level=level,
            function=owned_name(fill.function),
        )
    for function, node, found in kept(module):
        yield Violation(
            node=node,
            message=f"{owned_name(function)}() also keeps the {found.said} of a failure (line "
            f"{found.handler.lineno}): one failed attempt answers for the whole lifetime",
            level=level,
            function=owned_name(function),
        )


def _of_a_decorator(module: Module, decoration: Decoration) -> StandIn | None:
    made = decoration.owner or decoration.name
    keeps = _KEEP_NONE.search(decoration.name)
    if not keeps and not (_FORGET_NONE.search(made) and decoration.tail in ("cached", "memoize")):
        return None
    told = {keyword.arg for keyword in decoration.call.keywords} if decoration.call is not None else set()
    if told & _LET_THROUGH or is_started_by_hand(module, decoration.function):
        return None
    found = returned(decoration.function)
    return None if found is None or (found.is_none and not keeps) else found


RULE = Rule(
    code="SG608",
    name="failure-stored",
    summary="an empty or default value that stands in for a failure is stored as if it were the answer",
    confidence="medium",
    scope="fleet",
    hints=((*STORES, b"memoize"), (b"except",), _PASSING),
    near=_may_apply,
    check=check,
    documentation=Documentation(
        what=(
            "A query or a request fails, the handler of a passing exception (`Exception`, a time-out, a refused "
            "connection) gives a constant instead, and this constant is stored with the usual lifetime: by hand, also "
            "in a dict or a global of the process, or by a cache decorator around the function."
        ),
        why=(
            "One failure of a second is served until the entry expires, `lru_cache` serves it until the process ends. "
            "Nobody sees that the source is back."
        ),
        example="@lru_cache\ndef rates():\n    try:\n        return requests.get(URL).json()\n    except Exception:\n"
        "        return {}",
        instead="Let the exception pass the cache, and catch it outside. Or keep failures for some seconds only "
        "(`@locked_cache(ttl=300, error_ttl=5)`).",
        unless="The constant is the answer to this failure, for as long as the entry lives.",
        sure="Medium. Exceptions that are answers (`DoesNotExist`, `ValueError`), values that are tested before they "
        "are stored, entries of at most a minute, and stand-ins that count as a miss are left out. "
        "Decorators of the project are followed; below them, empty values are left out, too. Information in places for "
        "administrators, commands, tasks and monitoring.",
        fix="No automatic fix: only the program knows what its callers do with an exception.",
    ),
)
