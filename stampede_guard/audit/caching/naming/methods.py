"""The methods of caches, by their names."""

from __future__ import annotations

from typing import Literal

_GETS = frozenset(
    "get get_json getex get_value get_item getitem aget get_raw get_data get_object get_obj "
    "get_dict get_str get_async "
    "async_get get_pickle get_bytes get_cached get_cache get_from_cache fetch read retrieve "
    "lookup hget hgetall gets "
    "load find cache_get get_entry get_or_none peek get_by_key get_key get_model get_list get_pydantic "
    "lrange smembers zrange zrevrange".split()
)
_EXISTS = frozenset("exists has has_key contains aexists is_cached cached __contains__ key_exists".split())
_MANY_GETS = frozenset("get_many mget multi_get get_multi aget_many hmget get_dict".split())
_SETS = frozenset(
    "set setex psetex set_json set_value set_item setitem aset set_raw set_data set_object "
    "set_obj set_dict set_str "
    "set_async async_set set_pickle set_bytes set_cached set_cache set_to_cache set_with_ttl "
    "set_ex put store save "
    "write hset hmset setnx add aadd insert cache_set set_entry update_cache set_if_absent "
    "set_key set_model set_list "
    "set_pydantic hsetnx set_with_expiry set_with_expire cache push_cache rpush lpush sadd zadd".split()
)
# A list or a set of the store. All members at once are a fill; one more is a queue or a log.
GROWING = frozenset("rpush lpush sadd zadd".split())
_MANY_SETS = frozenset("set_many mset multi_set set_multi aset_many hmset".split())
EXPIRES = frozenset(
    "ex px ttl timeout expire expiry expiration time exat pxat expirein expire_in cache_timeout".split()
)

# Methods that an entry rarely has.
OF_A_CACHE = frozenset(
    "get set setex delete hget hset mget mset exists expire get_many set_many clear".split()
)
# Methods that a cache has not, but what it keeps: `get_cached(key).decode()`.
OF_A_VALUE = frozenset(
    "decode encode split splitlines strip lower upper copy items json dict model_dump".split()
)
# Options of a set that are no value.
OPTIONS = frozenset(
    "nx xx version tags tag namespace noreply flags keepttl get region group prefix ctx retry delta dependency".split()
)

# What a cache method does, by its name. `traces` uses the same tables to search text.
METHODS: dict[str, Literal["read", "write"]] = {
    **dict.fromkeys(_SETS | _MANY_SETS, "write"),
    **dict.fromkeys(_GETS | _EXISTS | _MANY_GETS, "read"),
}


def method_kind(name: str) -> Literal["read", "exists", "read-many", "write", "write-many"] | None:
    """By the name, also of a class's own method: `self._get_value(key)`."""
    name = name.removeprefix("_")
    if name in _GETS:
        return "read"
    if name in _SETS:
        return "write"
    if name in _EXISTS:
        return "exists"
    if name in _MANY_GETS:
        return "read-many"
    return "write-many" if name in _MANY_SETS else None
