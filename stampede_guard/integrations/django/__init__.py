"""Django: a cache backend without herds, `@locked_cache` for helpers and views, and invalidation on commit.

    CACHES = {"default": {"BACKEND": "stampede_guard.integrations.django.Cache", "LOCATION": "redis://...",
                          "OPTIONS": {"namespace": "shop"}}}

**Values.** They lie in Redis as Django's own backend puts them there, under names of this namespace. Reads and writes
are those of Django. The guard adds one thing: a flight between a miss and the `set` that ends it.

**`get_or_set`.** After a miss, one caller fleet-wide gets the lease of the key. It reads the key again, because the
flight before may have stored it, and calls the default in its own thread. So the default sees its caller's transaction.
Waiters get the value with the wake-up.

**`cache_page`, template fragments, sessions (`cached_db`).** Django calls `get`, computes, and calls `set`. A backend
does not see the computation. So `get` takes the lease when it misses a key of these three kinds, and returns None. All
others wait in their `get`. `set` stores the value and ends the flight.

1. A page has two keys: the list of headers that it varies on, and the page. Both expire together, so a miss usually
meets the list. 2. The leader stores the list first. If that ended the flight, its waiters would miss the page and
compute. 3. So the flight of a list ends when the same request stores its page.

A plain `get` or `get_or_set` on an event loop takes no lease. A wait would stop the loop, and with it the task that
computes. Under ASGI, one object of the cache may serve many requests, so each lease has its request. If a client goes
away, Django cancels the request. Waiters then take over its leases.

A view may not store its response: it has an error, or sets a cookie. Then Django closes its caches at the end of the
request, and `close` ends the flight without a value. Waiters go on beside each other, and for `uncacheable_ttl` no
request waits for this key. If the process dies, a waiter takes the lease over within a second.

A waiter in `get` waits at most `wait_timeout` (20 s). Then `get` is a miss: a cache does not make a page fail. A page
that computes longer than `compute_timeout` loses its lease. A fragment that failed outside of a request keeps its
lease until then.

**Deleted meanwhile.** 1. A flight begins to compute. 2. Another process calls `delete`. 3. The flight stores its value,
which is older than the deletion. So each flight has a mark in Redis, and `delete`, `set`, `add` and `clear` remove it
in the same step. A flight without its mark stores nothing, and its waiters ask again.

**Redis away.** `get` misses after 0.5 s, and for one second this process does not ask again. What a flight computes
goes to the waiters of its process. It is not stored, and neither are pages and fragments. Other writes raise the error
of redis-py, because a lost `delete` is a wrong value.
"""

from __future__ import annotations

from stampede_guard.integrations.django.cache import GuardedCache
from stampede_guard.integrations.django.decorator import locked_cache
from stampede_guard.integrations.django.guards import guard_of
from stampede_guard.integrations.django.invalidation import invalidate_on_commit
from stampede_guard.integrations.django.mapped import InvalidatingQuerySet, invalidates

Cache = GuardedCache
"""The name that `settings.CACHES` uses."""

__all__ = ["Cache", "InvalidatingQuerySet", "guard_of", "invalidate_on_commit", "invalidates", "locked_cache"]
