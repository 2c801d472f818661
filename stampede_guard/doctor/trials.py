"""Which rights a user lacks: by ACL DRYRUN where that is permitted, else by trying on a scratch entry.

What is tried writes at most to the scratch entry, and removes it again; nothing that others use is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from stampede_guard.stores.console import Machine

__all__ = ["CHANGES", "RIGHTS", "tried_rights"]

CHANGES = "stampede_guard:changes:"
"""What channels begin with that tell of changes to processes that keep copies (`l1_ttl`)."""
_INBOX = "stampede_guard:inbox:doctor"
RIGHTS: dict[str, tuple[str, ...]] = {
    "eval": ("EVAL", "return 1", "1", "KEY"),
    "evalsha": ("EVALSHA", "0" * 40, "1", "KEY"),
    "time": ("TIME",),
    "get": ("GET", "KEY"),
    "mget": ("MGET", "KEY"),
    "getrange": ("GETRANGE", "KEY", "0", "42"),
    "set": ("SET", "KEY", "doctor", "PX", "1000"),
    "del": ("DEL", "KEY"),
    "exists": ("EXISTS", "KEY"),
    "pttl": ("PTTL", "KEY"),
    "pexpire": ("PEXPIRE", "KEY", "1000"),
    "hmget": ("HMGET", "KEY", "field"),
    "hset": ("HSET", "KEY", "field", "doctor"),
    "hdel": ("HDEL", "KEY", "field"),
    "hgetall": ("HGETALL", "KEY"),
    "sadd": ("SADD", "KEY", "doctor"),
    "smembers": ("SMEMBERS", "KEY"),
    "zadd": ("ZADD", "KEY", "1", "doctor"),
    "zcard": ("ZCARD", "KEY"),
    "zrem": ("ZREM", "KEY", "doctor"),
    "zremrangebyscore": ("ZREMRANGEBYSCORE", "KEY", "-inf", "1"),
    "zscore": ("ZSCORE", "KEY", "doctor"),
    "subscribe": ("SUBSCRIBE", _INBOX),
    "ping": ("PING",),
    "publish": ("PUBLISH", _INBOX, "doctor"),
    "pubsub|numsub": ("PUBSUB", "NUMSUB", _INBOX),
}
"""Those of docs/redis.md, each with a command that needs it. KEY is a key of the scratch entry."""


async def tried_rights(
    machine: Machine, entry: str, errors: dict[str, str]
) -> tuple[str | None, tuple[str, ...] | None]:
    """The user's name, None where it may not be asked, and the rights that are lacking, None where nothing is known."""
    user: str | None = None
    try:
        user = (await machine.ask("ACL", "WHOAMI")).decode()
        return user, await _dry(machine, user, entry)
    except StoreUnavailable:
        raise
    except StoreError:
        pass
    try:
        return user, await _tried(machine, entry)
    except StoreUnavailable:
        raise
    except StoreError as error:
        errors["rights"] = str(error)
        return user, None


def _command(words: tuple[str, ...], key: str) -> tuple[str, ...]:
    return tuple(key if word == "KEY" else word for word in words)


async def _dry(machine: Machine, user: str, entry: str) -> tuple[str, ...]:
    """Raises `StoreRefused` where ACL DRYRUN is not permitted, or not known."""
    denied = []
    for right, words in RIGHTS.items():
        answer = await machine.ask("ACL", "DRYRUN", user, *_command(words, f"{{{entry}}}:v"))
        if answer != b"OK":
            denied.append(_named(right, answer.decode("utf-8", "replace"), entry))
    # Only asked about, never tried: processes that keep copies listen there.
    channel = f"{CHANGES}{entry.partition(':')[0]}"
    if (
        await machine.ask("ACL", "DRYRUN", user, "PUBLISH", channel, "doctor") != b"OK"
        and "publish" not in denied
    ):
        denied.append(f"&{channel}")
    return tuple(dict.fromkeys(denied))


async def _tried(machine: Machine, entry: str) -> tuple[str, ...]:
    """Each command on a key of its own, so that none finds another's kind of value."""
    denied, used = [], []
    for right, words in RIGHTS.items():
        if right == "subscribe":
            continue  # the connection would be a subscription's from then on
        key = f"{{{entry}}}:doctor:{right}"
        used.append(key)
        (answer,) = await machine.ask_all([_command(words, key)])
        if isinstance(answer, StoreError) and "NoPermission" in str(answer):
            denied.append(_named(right, str(answer), entry))
    await machine.ask_all([("DEL", *used)])
    return tuple(dict.fromkeys(denied))


def _named(right: str, answer: str, entry: str) -> str:
    """The right that is lacking: the command, or the keys or channels that it is about."""
    text = answer.lower()
    if " channel" in text:
        return "&stampede_guard:inbox:*"
    if " key" in text:
        namespace = entry.partition(":=")[0]
        return f"~{{{namespace}:*"
    return right
