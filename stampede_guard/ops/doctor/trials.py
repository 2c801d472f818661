"""Which rights a user lacks: by ACL DRYRUN if that is permitted, else by trials on a scratch entry.

A trial writes at most to the scratch entry and removes it again. It touches no key that others use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from stampede_guard.stores.console.machine import Machine

__all__ = ["CHANGES", "RIGHTS", "tried_rights"]

CHANGES = "stampede_guard:changes:"
"""Prefix of the channels that carry changes to processes with copies (`l1_ttl`)."""
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
    "zrangebyscore": ("ZRANGEBYSCORE", "KEY", "-inf", "+inf"),
    "zrem": ("ZREM", "KEY", "doctor"),
    "zremrangebyscore": ("ZREMRANGEBYSCORE", "KEY", "-inf", "1"),
    "hlen": ("HLEN", "KEY"),
    "xadd": ("XADD", "KEY", "NOMKSTREAM", "*", "doctor", "1"),
    "subscribe": ("SUBSCRIBE", _INBOX),
    "ping": ("PING",),
    "publish": ("PUBLISH", _INBOX, "doctor"),
    "pubsub|numsub": ("PUBSUB", "NUMSUB", _INBOX),
}
"""The rights of docs/redis.md, each with a command that needs it. KEY is a key of the scratch entry."""


async def tried_rights(
    machine: Machine, entry: str, errors: dict[str, str]
) -> tuple[str | None, tuple[str, ...] | None]:
    """The user's name, or None if the server does not permit the question. Then the missing rights, or None if
    unknown.
    """
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
    """Raises `StoreRefused` if ACL DRYRUN is not permitted, or unknown."""
    denied = []
    for right, words in RIGHTS.items():
        answer = await machine.ask("ACL", "DRYRUN", user, *_command(words, f"{{{entry}}}:v"))
        if answer != b"OK":
            denied.append(_named(right, answer.decode("utf-8", "replace"), entry))
    # Checked by DRYRUN only, never tried: processes with copies listen on it.
    channel = f"{CHANGES}{entry.partition(':')[0]}"
    if (
        await machine.ask("ACL", "DRYRUN", user, "PUBLISH", channel, "doctor") != b"OK"
        and "publish" not in denied
    ):
        denied.append(f"&{channel}")
    return tuple(dict.fromkeys(denied))


async def _tried(machine: Machine, entry: str) -> tuple[str, ...]:
    """Each command gets its own key, so that it never finds a value of another type."""
    denied, used = [], []
    for right, words in RIGHTS.items():
        if right == "subscribe":
            continue  # the connection would become a subscription's
        key = f"{{{entry}}}:doctor:{right}"
        used.append(key)
        (answer,) = await machine.ask_all([_command(words, key)])
        if isinstance(answer, StoreError) and "NoPermission" in str(answer):
            denied.append(_named(right, str(answer), entry))
    await machine.ask_all([("DEL", *used)])
    return tuple(dict.fromkeys(denied))


def _named(right: str, answer: str, entry: str) -> str:
    """The missing right: the command, or its keys or channels."""
    text = answer.lower()
    if " channel" in text:
        return "&stampede_guard:inbox:*"
    if " key" in text:
        namespace = entry.partition(":=")[0]
        return f"~{{{namespace}:*"
    return right
