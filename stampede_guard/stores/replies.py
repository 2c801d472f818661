"""What an error answer means: every error of Redis and Valkey in one table, sorted by what a caller can do about it.

not reachable   the server is there and cannot serve this now, and one that can may be found soon. Same as no answer:
                the caller goes without the store, an invalidation is queued.
for now         the server refuses writes because of its own state. Reads work; an invalidation is queued.
refused         the server does not let this client do it, and will not by itself. `invalidate()` raises.
no script       the server does not know the script: send it with its text.
malformed       no answer that this protocol has. The call fails.

Sources: "Redis protocol specification", errors; `src/server.c`, `src/script.c`, `src/cluster.c`, `src/sentinel.c` of
Redis 7.0 to 8 and Valkey 8 to 9.
"""

from __future__ import annotations

import enum
import re
import socket
from typing import Any

from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterCrossSlotError,
    ClusterDownError,
    InvalidResponse,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from stampede_guard.errors import RefusalKind, StoreError, StoreRefused, StoreUnavailable, WrongTopology
from stampede_guard.stores.tls import tls_trouble

__all__ = [
    "MEANINGS",
    "Meaning",
    "code_of",
    "is_not_serving",
    "may_be_elsewhere",
    "meaning_of",
    "reason",
    "store_error",
    "told",
    "unkept",
]


class Meaning(enum.Enum):
    NOT_REACHABLE = "not reachable"
    FOR_NOW = "for now"
    REFUSED = "refused"
    NO_SCRIPT = "no script"
    MALFORMED = "malformed"


_GONE, _FOR_NOW, _NO = Meaning.NOT_REACHABLE, Meaning.FOR_NOW, Meaning.REFUSED

MEANINGS: dict[str, Meaning] = {
    # Who serves these keys, or will in a moment.
    "MOVED": _GONE,
    "ASK": _GONE,
    "TRYAGAIN": _GONE,
    "CLUSTERDOWN": _GONE,
    "REDIRECT": _GONE,
    "LOADING": _GONE,
    "BUSY": _GONE,
    "MASTERDOWN": _GONE,
    "NOMASTERLINK": _GONE,
    # A command that the server ended because it became a replica, or because an operator said so.
    "UNBLOCKED": _GONE,
    # What a sentinel says that does not know, or cannot act.
    "IDONTKNOW": _GONE,
    "NOGOODSLAVE": _GONE,
    "NOQUORUM": _GONE,
    "INPROG": _GONE,
    # The server's own state: no memory, no disk, no replicas; or it is one. See `may_be_elsewhere`.
    "READONLY": _FOR_NOW,
    "OOM": _FOR_NOW,
    "MISCONF": _FOR_NOW,
    "NOREPLICAS": _FOR_NOW,
    "IOERR": _FOR_NOW,
    # Who asks.
    "NOAUTH": _NO,
    "WRONGPASS": _NO,
    "NOPERM": _NO,
    "DENIED": _NO,
    # What is asked.
    "WRONGTYPE": _NO,
    "CROSSSLOT": _NO,
    "NOPROTO": _NO,
    "EXECABORT": _NO,
    "NOTBUSY": _NO,
    "UNKILLABLE": _NO,
    "BUSYKEY": _NO,
    "BUSYGROUP": _NO,
    "NOGROUP": _NO,
    "INVALIDOBJ": _NO,
    "NOADDR": _NO,
    "NOSCRIPT": Meaning.NO_SCRIPT,
}
"""By the first word of the answer. `ERR`, and what is not here, is told by its text."""

_TEXTS: tuple[tuple[re.Pattern[str], Meaning], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in (
        (r"max number of clients|maxclients", _GONE),
        (r"problem with LDAP service", _GONE),
        # Proxies in front of a server that is away.
        (
            r"no upstream host|upstream (failure|connection|timeout)|no healthy upstream|backend conn\w* fail",
            _GONE,
        ),
        (r"(connection (refused|timed out|reset)|server closed connection|host is down)\W*$", _GONE),
        (r"server is (shutting down|not ready)|instance .*(failing over|is being promoted)", _GONE),
        # An operator's SCRIPT KILL: it hits what runs, and not who asked.
        (r"script killed by user", _FOR_NOW),
        (r"protocol error", Meaning.MALFORMED),
    )
)
_EMBEDDED = re.compile(r"(?:^|[:\s])-?(OOM|READONLY|MISCONF|NOREPLICAS|NOPERM|CLUSTERDOWN|MASTERDOWN) ")
"""Where a server reports the error of a command within the error of its script."""
_CODE = re.compile(r"-?([A-Z][A-Z0-9_]*)(?: |$)")
_CLASSES: tuple[tuple[type[Exception], str], ...] = (
    (MovedError, "MOVED"),
    (AskError, "ASK"),
    (TryAgainError, "TRYAGAIN"),
    (MasterDownError, "MASTERDOWN"),
    (ClusterDownError, "CLUSTERDOWN"),
    (ClusterCrossSlotError, "CROSSSLOT"),
    (BusyLoadingError, "LOADING"),
    (ReadOnlyError, "READONLY"),
    (OutOfMemoryError, "OOM"),
    (NoScriptError, "NOSCRIPT"),
    (NoPermissionError, "NOPERM"),
    (AuthorizationError, "NOPERM"),
    (AuthenticationError, "NOAUTH"),
)
"""redis-py takes the first word off the text where it has a class for it."""
_ABOUT_A_SLOT = ("MOVED", "ASK", "REDIRECT")
LONGEST_TEXT = 200


def code_of(error: BaseException) -> str:
    """The first word of an error answer; empty where it has none."""
    status = str(getattr(error, "status_code", None) or "")
    if status not in ("", "ERR"):
        return status
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    found = _CODE.match(str(error))
    return found[1] if found is not None else status


def meaning_of(error: BaseException) -> Meaning:
    """Of an error answer, or of what ended a connection."""
    if isinstance(error, InvalidResponse):
        return Meaning.MALFORMED
    answered = isinstance(error, ResponseError | AuthenticationError | BusyLoadingError | AuthorizationError)
    if not answered:
        return Meaning.NOT_REACHABLE
    text = str(error)
    meaning = MEANINGS.get(code_of(error))
    if meaning is not None:
        return meaning
    if not text.strip():
        return Meaning.MALFORMED
    embedded = _EMBEDDED.search(text)
    if embedded is not None:
        return MEANINGS[embedded[1]]
    return next((meaning for pattern, meaning in _TEXTS if pattern.search(text)), Meaning.REFUSED)


def is_not_serving(error: BaseException) -> bool:
    """Error answers of a server that is there and cannot serve for now: the same as a server that is away.

    Not of one that only sends elsewhere: it serves others.
    """
    if not isinstance(error, ResponseError | BusyLoadingError):
        return False
    return meaning_of(error) is Meaning.NOT_REACHABLE and code_of(error) not in _ABOUT_A_SLOT


def may_be_elsewhere(error: BaseException) -> bool:
    """Whether a replica answered. If it was the master, its address or the sentinels may lead elsewhere by now.

    It is not away. It answers reads, and a process that counted it as away would serve what others have invalidated.
    """
    embedded = _EMBEDDED.search(str(error))
    return code_of(error) == "READONLY" or (embedded is not None and embedded[1] == "READONLY")


def store_error(error: BaseException) -> StoreError:
    """What the caller gets. A refusal (wrong password, missing permission) is told apart from an absence."""
    if isinstance(error, StoreError):
        return error
    trouble = tls_trouble(error)
    if trouble is not None:
        return trouble
    meaning = meaning_of(error)
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        if meaning is not Meaning.REFUSED:
            return StoreUnavailable(f"the store cannot serve now: {told(error)}")
        kind: RefusalKind = (
            "permission" if isinstance(error, NoPermissionError | AuthorizationError) else "credentials"
        )
        return StoreRefused(
            f"the store refuses this client: {type(error).__name__}: {told(error)}", kind=kind
        )
    if isinstance(error, InvalidResponse):
        return StoreUnavailable(
            "the server's answer is not in Redis's protocol: look at the port, and write rediss:// if it is one of TLS"
        )
    if isinstance(error, ResponseError | BusyLoadingError):
        return _answered(error, meaning)
    if isinstance(error, TimeoutError):
        return StoreUnavailable("the store could not be reached in time", late=True)
    hint = ""
    if _is_unknown_host(error):
        hint = " (a host name that nobody knows: look at the store's URL, and at the resolver)"
    return StoreUnavailable(f"the store cannot be reached: {str(error) or type(error).__name__}{hint}")


def _is_unknown_host(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, socket.gaierror):
            return error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
        error = error.__cause__ or error.__context__
    return False


def _answered(error: Exception, meaning: Meaning) -> StoreError:
    if meaning is Meaning.NOT_REACHABLE:
        return StoreUnavailable(f"the store cannot serve now: {told(error)}")
    if "cluster support disabled" in str(error):
        return WrongTopology(
            "the server is no node of a cluster: write redis:// (rediss:// for TLS) in place of redis+cluster://, or "
            "give a Redis client in place of a RedisCluster"
        )
    return StoreRefused(
        f"the store refused a command: {told(error)}",
        may_pass=meaning is Meaning.FOR_NOW,
        kind=_kind_of(error),
    )


def unkept(reply: Any) -> StoreRefused | None:
    """Of a value that a script has told to the waiters and could not store: what SET was answered. Else None."""
    text = reply.decode("utf-8", "replace").removeprefix("-") if isinstance(reply, bytes) else ""
    if " " not in text or not _CODE.match(text):
        return None
    answer = ResponseError(text)
    found = _answered(answer, meaning_of(answer))
    return found if isinstance(found, StoreRefused) else StoreRefused(str(found), may_pass=True)


_KINDS: dict[str, RefusalKind] = {
    "NOAUTH": "credentials",
    "WRONGPASS": "credentials",
    "NOPERM": "permission",
    "DENIED": "permission",
}
_KINDS |= {
    "OOM": "full",
    "MISCONF": "writes",
    "NOREPLICAS": "writes",
    "IOERR": "writes",
    "READONLY": "writes",
}


def _kind_of(error: Exception) -> RefusalKind:
    code, text = code_of(error), str(error)
    embedded = _EMBEDDED.search(text)
    if code not in _KINDS and embedded is not None:
        code = embedded[1]
    if "ACL failure" in text or "can't run this command" in text:
        code = "NOPERM"
    return _KINDS.get(code, "other")


_QUOTED = re.compile(r"(?<!\w)(?:'[^']*'|`[^`]*`|\"[^\"]*\")")
_LEFT_OPEN = re.compile(r"(?<!\w)['`\"][^'`\"]*$")
_HARMLESS = re.compile(r"[A-Za-z|_-]{1,40}")


def told(error: BaseException) -> str:
    """The text of an error answer, as it may stand in a log: without keys and arguments, which name entries.

    1. A server without EVALSHA answers with the arguments it got. 2. The first is a key. 3. A key has values of
    parameters in it.
    """
    text = str(error).partition(", with args beginning with")[0].partition("{")[0]
    # Where in a script of ours it was is no news, and another place would look like another refusal.
    text = re.sub(r"\s+script:( [0-9a-f]{40},)? on @.*$", "", text)

    def shown(found: re.Match[str]) -> str:
        return found[0] if _HARMLESS.fullmatch(found[0][1:-1]) else "..."

    text = _LEFT_OPEN.sub("", _QUOTED.sub(shown, text)).rstrip()
    return text[:LONGEST_TEXT] or type(error).__name__


def reason(failure: StoreError) -> str:
    """For the log. What a credential provider raises may hold a secret, so of that only its class is told."""
    cause: Any = failure.__cause__
    if cause is None or isinstance(cause, RedisError | OSError):
        return str(failure)
    return f"{type(cause).__name__} while connecting"
