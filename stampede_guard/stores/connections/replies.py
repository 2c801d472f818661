"""The meaning of an error answer: every error of Redis and Valkey in one table, sorted by what the caller can do.

not reachable   The server is there but cannot serve this now. One that can may be found soon. Same as no answer: the
                caller continues without the store, and an invalidation is queued.
for now         The server refuses writes because of its own state. Reads work, and an invalidation is queued.
refused         The server does not allow this client the command, and will not change that itself.
                `invalidate()` raises.
no script       The server does not know the script: send it with its text.
malformed       Not an answer of this protocol. The call fails.

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
from stampede_guard.stores.connections.tls import tls_trouble

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
    # About the server for these keys, now or in a moment.
    "MOVED": _GONE,
    "ASK": _GONE,
    "TRYAGAIN": _GONE,
    "CLUSTERDOWN": _GONE,
    "REDIRECT": _GONE,
    "LOADING": _GONE,
    "BUSY": _GONE,
    "MASTERDOWN": _GONE,
    "NOMASTERLINK": _GONE,
    # The server ended a command, because it became a replica or because an operator asked for it.
    "UNBLOCKED": _GONE,
    # A sentinel that does not know, or cannot act.
    "IDONTKNOW": _GONE,
    "NOGOODSLAVE": _GONE,
    "NOQUORUM": _GONE,
    "INPROG": _GONE,
    # The server's own state: no memory, no disk, no replicas; or it is a replica. See `may_be_elsewhere`.
    "READONLY": _FOR_NOW,
    "OOM": _FOR_NOW,
    "MISCONF": _FOR_NOW,
    "NOREPLICAS": _FOR_NOW,
    "IOERR": _FOR_NOW,
    # About the client.
    "NOAUTH": _NO,
    "WRONGPASS": _NO,
    "NOPERM": _NO,
    "DENIED": _NO,
    # About the command.
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
"""By the first word of the answer. `ERR` and unknown words are classified by the text."""

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
        # An operator's SCRIPT KILL. It hits the running script, whichever client sent it.
        (r"script killed by user", _FOR_NOW),
        (r"protocol error", Meaning.MALFORMED),
    )
)
_EMBEDDED = re.compile(r"(?:^|[:\s])-?(OOM|READONLY|MISCONF|NOREPLICAS|NOPERM|CLUSTERDOWN|MASTERDOWN) ")
"""A server reports the error of a command inside the error of its script."""
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
"""redis-py removes the first word from the text if it has a class for it."""
_ABOUT_A_SLOT = ("MOVED", "ASK", "REDIRECT")
LONGEST_TEXT = 200


def code_of(error: BaseException) -> str:
    """The first word of an error answer, or an empty text."""
    status = str(getattr(error, "status_code", None) or "")
    if status not in ("", "ERR"):
        return status
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    found = _CODE.match(str(error))
    return found[1] if found is not None else status


def meaning_of(error: BaseException) -> Meaning:
    """The meaning of an error answer, or of the exception that ended a connection."""
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
    """Whether the server is there but cannot serve for now. This is treated like a server that is away.

    False for a server that only redirects: it serves other keys.
    """
    if not isinstance(error, ResponseError | BusyLoadingError):
        return False
    return meaning_of(error) is Meaning.NOT_REACHABLE and code_of(error) not in _ABOUT_A_SLOT


def may_be_elsewhere(error: BaseException) -> bool:
    """Whether a replica answered. If it was the master before, its address or the sentinels may lead elsewhere now.

    It is not away: it answers reads. A process that counted it as away would serve values that others invalidated.
    """
    embedded = _EMBEDDED.search(str(error))
    return code_of(error) == "READONLY" or (embedded is not None and embedded[1] == "READONLY")


def store_error(error: BaseException) -> StoreError:
    """The error for the caller. It distinguishes a refusal (wrong password, missing permission) from an absence."""
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
            "the answer is not in Redis's protocol: check the port, and write rediss:// if the port expects TLS"
        )
    if isinstance(error, ResponseError | BusyLoadingError):
        return _answered(error, meaning)
    if isinstance(error, TimeoutError):
        return StoreUnavailable("the store could not be reached in time", late=True)
    hint = ""
    if _is_unknown_host(error):
        hint = " (the host name is unknown: check the store's URL and the resolver)"
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
            "the server is not a node of a cluster: write redis:// (rediss:// for TLS) in place of redis+cluster://, "
            "or give a Redis client in place of a RedisCluster"
        )
    kind = _kind_of(error)
    return StoreRefused(
        f"the store refused a command: {told(error)}{_FULL if kind == 'full' else ''}",
        may_pass=meaning is Meaning.FOR_NOW,
        kind=kind,
    )


def unkept(reply: Any) -> StoreRefused | None:
    """The error that SET gave, if a script sent a value to the waiters but could not store it. Else None."""
    text = reply.decode("utf-8", "replace").removeprefix("-") if isinstance(reply, bytes) else ""
    if " " not in text or not _CODE.match(text):
        return None
    answer = ResponseError(text)
    found = _answered(answer, meaning_of(answer))
    return found if isinstance(found, StoreRefused) else StoreRefused(str(found), may_pass=True)


_FULL = " (its memory is full: raise maxmemory, or delete what is not needed)"
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
    """The text of an error answer for a log, without keys and arguments, because they name entries.

    1. A server without EVALSHA answers with the arguments it received. 2. The first one is a key. 3. A key contains
    values of parameters.
    """
    text = str(error).partition(", with args beginning with")[0].partition("{")[0]
    # Remove the position within our script. Another position would look like another refusal.
    text = re.sub(r"\s+script:( [0-9a-f]{40},)? on @.*$", "", text)

    def shown(found: re.Match[str]) -> str:
        return found[0] if _HARMLESS.fullmatch(found[0][1:-1]) else "..."

    text = _LEFT_OPEN.sub("", _QUOTED.sub(shown, text)).rstrip()
    return text[:LONGEST_TEXT] or type(error).__name__


def reason(failure: StoreError) -> str:
    """For the log. An error of a credential provider may contain a secret, so only its class is logged."""
    cause: Any = failure.__cause__
    if cause is None or isinstance(cause, RedisError | OSError):
        return str(failure)
    return f"{type(cause).__name__} while connecting"
