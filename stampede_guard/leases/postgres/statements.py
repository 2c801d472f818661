"""The steps of a lease store as SQL: the rules of `leases.core.grants`, one statement each, in autocommit.

Every step begins in the same way:
1. `seen` locks the row, and reads what others have committed until then, 2. `timed` reads the clock for a row of
`seen`, so after the wait for the lock, 3. `lease` is the row as it applies now (lapsed values removed).
Then the step decides and writes. It uses `clock_timestamp()`: `now()` would be the time before the wait.

Parameter $1 is the longest wait for the row, in milliseconds. After that the caller has given up, and a grant would go
to an acquirer that no longer waits. No step commits asynchronously, even if that is the server's default. A crash would
undo a grant, a renewal, a rest or an operator's request that others still rely on. A place in the queue may be lost.

Steps that read the queue are functions in `schema.sql`. A statement would read the queue as it was before the wait for
the row.
"""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.leases.core.grants import GONE_FOR
from stampede_guard.leases.core.queue import CALLED, MOST_WAITING

__all__ = ["CALLS", "CHANNEL", "KEPT_AUDITS", "LeaseStatements"]

CHANNEL = "stampede_guard_leases"
CALLS = "stampede_guard_leases_called"
"""The channel for called waiters, in their order; functions in `schema.sql` send to it."""
KEPT_AUDITS = 1000

_MAKE = """
INSERT INTO {schema}.leases (name, renewed_at) VALUES ($1, clock_timestamp()) ON CONFLICT (name) DO NOTHING"""

_LOCKED = """
WITH seen AS MATERIALIZED (
    SELECT l.* FROM {schema}.leases AS l,
        (SELECT set_config('lock_timeout', $1, true) {durable}) AS patience
    WHERE l.name = $2 FOR UPDATE OF l
), """
_UNLOCKED = """
WITH seen AS MATERIALIZED (SELECT l.* FROM {schema}.leases AS l WHERE {which}), """
_DURABLE = """, CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
            THEN set_config('synchronous_commit', 'on', true) END"""

_SETTLED = """timed AS MATERIALIZED (
    SELECT *, clock_timestamp() AS now FROM seen
), lease AS MATERIALIZED (
    SELECT name, last, token, owner, lease_ttl, granted_at, renewed_at, rest, now,
        extract(epoch FROM now)::float8 AS epoch,
        witness, CASE WHEN missing_since <= now THEN missing_since END AS missing_since,
        CASE WHEN held THEN holder ELSE '' END AS holder,
        CASE WHEN held THEN least(deadline, now + lease_ttl * interval '1 second') END AS deadline,
        CASE WHEN held THEN asked_to_leave ELSE '' END AS asked_to_leave,
        CASE WHEN rest > 0 AND now < rests_until
            THEN least(rests_until, now + rest * interval '1 second') END AS rests_until
    FROM (SELECT *, holder <> '' AND now < deadline AS held FROM timed) AS read
)"""

_ASK = """
SELECT * FROM {schema}.leases_ask($1, $2, $3, $4::jsonb, $5, $6, $7, $8, {most_waiting}, {called}, {gone_for})"""

_RENEW = """, judged AS MATERIALIZED (
    SELECT *, holder <> '' AND holder = $3 AND token = $4 AS ours,
        holder <> '' AND holder = $3 AND token = $4 AND asked_to_leave = '' AS extends
    FROM lease
), done AS (
    UPDATE {schema}.leases AS l SET
        holder = d.holder,
        lease_ttl = CASE WHEN extends THEN greatest(d.lease_ttl, $5::float8) ELSE d.lease_ttl END,
        renewed_at = CASE WHEN extends THEN d.now ELSE d.renewed_at END,
        deadline = CASE WHEN extends THEN greatest(d.deadline, d.now + $5 * interval '1 second') ELSE d.deadline END,
        rests_until = d.rests_until,
        asked_to_leave = d.asked_to_leave,
        witness = CASE WHEN ours THEN $6::text WHEN d.holder <> '' THEN d.witness ELSE '' END,
        missing_since = CASE WHEN ours OR d.holder = '' THEN NULL ELSE d.missing_since END
    FROM judged AS d WHERE l.name = d.name
    RETURNING d.ours, d.holder <> '' AS held, d.asked_to_leave
)
SELECT * FROM done"""

_RELEASE = """
SELECT {schema}.leases_release($1, $2, $3, $4, $5, $6, {called}) AS held"""

_LEAVE = """
SELECT {schema}.leases_leave($1, $2, $3, {called})"""

_CHECK = """
SELECT EXISTS (
    SELECT FROM {schema}.leases
    WHERE name = $1 AND $2 <> '' AND holder = $2 AND token = $3 AND clock_timestamp() < deadline
)"""

_FORCE = """, judged AS MATERIALIZED (
    SELECT *, holder <> '' AND token = $3 AS matches, holder <> '' AND token = $3 AND $5::bool AS frees FROM lease
), done AS (
    UPDATE {schema}.leases AS l SET
        holder = CASE WHEN frees THEN '' ELSE d.holder END,
        deadline = CASE WHEN NOT frees THEN d.deadline END,
        asked_to_leave = CASE WHEN frees THEN '' WHEN matches THEN $4::text ELSE d.asked_to_leave END,
        rests_until = d.rests_until,
        witness = CASE WHEN d.holder = '' OR frees THEN '' ELSE d.witness END,
        missing_since = CASE WHEN d.holder = '' OR frees THEN NULL ELSE d.missing_since END
    FROM judged AS d WHERE l.name = d.name
    RETURNING d.now, d.matches, d.frees, d.rests_until IS NOT NULL AS resting,
        CASE WHEN d.holder <> '' THEN d.token ELSE 0 END AS token,
        CASE WHEN d.frees THEN 0 ELSE extract(epoch FROM d.deadline - d.now)::float8 END AS remaining
), audited AS (
    INSERT INTO {schema}.lease_audits (name, token, by_whom, at, overrode, owner)
    SELECT name, token, $4, now, $5, owner FROM judged WHERE matches AND $6::bool
    RETURNING id
), pruned AS (
    DELETE FROM {schema}.lease_audits USING audited WHERE lease_audits.id <= audited.id - {kept}
)
SELECT matches, token, remaining, CASE WHEN matches THEN pg_notify('{channel}', $2) END AS told,
    CASE WHEN frees AND NOT resting THEN {schema}.leases_freed($2, now, {called}) END AS called
FROM done"""

_VIEW = """
SELECT name, token, holder <> '' AS held, owner, extract(epoch FROM granted_at)::float8 AS granted_at,
    extract(epoch FROM renewed_at)::float8 AS renewed_at, asked_to_leave,
    (SELECT coalesce(json_agg(waits.owner), '[]')::text FROM (
        SELECT p.owner FROM {schema}.lease_places AS p WHERE p.name = lease.name AND p.until > lease.now
        ORDER BY p.position LIMIT {most_waiting}
    ) AS waits) AS waiting,
    coalesce(extract(epoch FROM coalesce(deadline, rests_until) - now)::float8, 0) AS remaining,
    holder = '' AND rests_until IS NOT NULL AS resting
FROM lease ORDER BY name"""

_AUDITS = """
SELECT name, token, by_whom, extract(epoch FROM at)::float8 AS at, overrode, owner
FROM {schema}.lease_audits WHERE starts_with(name, $1) ORDER BY id DESC LIMIT $2"""

_PRUNE = """
WITH old AS MATERIALIZED (
    SELECT name FROM {schema}.leases WHERE starts_with(name, $1)
    AND (holder = '' OR deadline < clock_timestamp()) AND coalesce(rests_until, '-infinity') < clock_timestamp()
    AND coalesce(greatest(renewed_at, deadline), '-infinity') < clock_timestamp() - $2::float8 * interval '1 second'
    AND NOT EXISTS (
        SELECT FROM {schema}.lease_places AS p WHERE p.name = leases.name AND clock_timestamp() < p.until
    )
    LIMIT $3 FOR UPDATE SKIP LOCKED
), places AS (
    DELETE FROM {schema}.lease_places AS p USING old WHERE p.name = old.name
), gone AS (
    DELETE FROM {schema}.leases AS l USING old WHERE l.name = old.name RETURNING l.name
)
SELECT count(*) AS pruned FROM gone"""


@dataclass(frozen=True, slots=True)
class LeaseStatements:
    """All statements for the tables in one schema.

    `make` inserts an empty row, because a step needs a row to lock. An empty row means the same as no row. Its
    `renewed_at` is the current time, so that `prune` does not delete it before its first use.
    """

    make: str
    ask: str
    renew: str
    release: str
    leave: str
    check: str
    force: str
    show: str
    views: str
    audits: str
    prune: str

    @classmethod
    def of(cls, schema: str) -> LeaseStatements:
        """`schema`: as written in SQL."""

        def text(*parts: str, durable: str = "", which: str = "") -> str:
            return "".join(parts).format(
                schema=schema,
                durable=durable,
                which=which,
                channel=CHANNEL,
                kept=KEPT_AUDITS,
                most_waiting=MOST_WAITING,
                called=CALLED,
                gone_for=GONE_FOR,
            )

        return cls(
            make=text(_MAKE),
            ask=text(_ASK),
            renew=text(_LOCKED, _SETTLED, _RENEW, durable=_DURABLE),
            release=text(_RELEASE),
            leave=text(_LEAVE),
            check=text(_CHECK),
            force=text(_LOCKED, _SETTLED, _FORCE, durable=_DURABLE),
            show=text(_UNLOCKED, _SETTLED, _VIEW, which="l.name = $1"),
            views=text(
                _UNLOCKED,
                _SETTLED,
                _VIEW,
                which="starts_with(l.name, $1) AND l.token > 0",
            )
            + " LIMIT $2",
            audits=text(_AUDITS),
            prune=text(_PRUNE),
        )
