"""The steps of a lease store as SQL: the rules of `leases.core.grants`, one statement each, in autocommit.

Every step begins alike: `seen` locks the row, and reads what others have committed until then; `timed` reads the clock,
and because it reads it for a row of `seen`, after the wait for the lock; `lease` is the row as it is to be read now.
Then a step decides and writes. `clock_timestamp()`, because `now()` would be the time before the wait.

Parameter $1 is the longest wait for the row in milliseconds: who asked has given up by then, and nothing is to be
granted to somebody who has gone. No step commits asynchronously, also where the server does so by default: what a crash
takes back (a grant, a renewal, a rest, an operator's word) would still be believed in.
"""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.leases.core.queue import MOST_WAITING

__all__ = ["CHANNEL", "KEPT_AUDITS", "Statements"]

CHANNEL = "stampede_guard_leases"
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
        holder AS was_holder,
        CASE WHEN held THEN holder ELSE '' END AS holder,
        CASE WHEN held THEN least(deadline, now + lease_ttl * interval '1 second') END AS deadline,
        CASE WHEN held THEN asked_to_leave ELSE '' END AS asked_to_leave,
        CASE WHEN rest > 0 AND now < rests_until
            THEN least(rests_until, now + rest * interval '1 second') END AS rests_until,
        (
            SELECT coalesce(jsonb_agg(place || jsonb_build_object('until',
                least((place->>'until')::float8, extract(epoch FROM now)::float8 + (place->>'seconds')::float8)
            ) ORDER BY number), '[]')
            FROM jsonb_array_elements(queue) WITH ORDINALITY AS places (place, number)
            WHERE extract(epoch FROM now)::float8 < (place->>'until')::float8
        ) AS queue
    FROM (SELECT *, holder <> '' AND now < deadline AS held FROM timed) AS read
)"""

_ASK = """, asked AS MATERIALIZED (
    SELECT *, jsonb_array_length(queue) AS waiting, coalesce((
            SELECT number::int - 1 FROM jsonb_array_elements(queue) WITH ORDINALITY AS places (place, number)
            WHERE place->>'holder' = $3 LIMIT 1
        ), jsonb_array_length(queue)) AS before
    FROM lease
), decided AS MATERIALIZED (
    SELECT *, CASE
            WHEN holder = $3 AND asked_to_leave <> '' THEN 'leaving'
            WHEN holder = $3 THEN 'again'
            WHEN holder = '' AND rests_until IS NULL AND before = 0 THEN 'granted'
            WHEN holder <> '' THEN 'held'
            WHEN rests_until IS NOT NULL THEN 'resting'
            ELSE 'queued'
        END AS verdict,
        greatest(last + 1, (extract(epoch FROM now) * 1000000)::bigint) AS next,
        CASE WHEN $6::float8 > 0 AND (before < waiting OR waiting < {most_waiting}) THEN jsonb_build_object(
            'holder', $3::text, 'owner', $4::jsonb, 'until', epoch + $6, 'seconds', $6
        ) END AS own_place
    FROM asked
), done AS (
    UPDATE {schema}.leases AS l SET
        last = CASE verdict WHEN 'granted' THEN d.next ELSE d.last END,
        holder = CASE verdict WHEN 'granted' THEN $3 ELSE d.holder END,
        token = CASE verdict WHEN 'granted' THEN d.next ELSE d.token END,
        owner = CASE verdict WHEN 'granted' THEN $4::jsonb ELSE d.owner END,
        lease_ttl = CASE verdict WHEN 'granted' THEN $5::float8 WHEN 'again' THEN greatest(d.lease_ttl, $5)
            ELSE d.lease_ttl END,
        granted_at = CASE verdict WHEN 'granted' THEN d.now ELSE d.granted_at END,
        renewed_at = CASE WHEN verdict IN ('granted', 'again') THEN d.now ELSE d.renewed_at END,
        deadline = CASE WHEN verdict IN ('granted', 'again')
            THEN greatest(d.deadline, d.now + $5 * interval '1 second') ELSE d.deadline END,
        rest = CASE verdict WHEN 'granted' THEN 0 ELSE d.rest END,
        rests_until = d.rests_until,
        asked_to_leave = d.asked_to_leave,
        queue = CASE
            WHEN verdict = 'granted' THEN (
                SELECT coalesce(jsonb_agg(place ORDER BY number), '[]')
                FROM jsonb_array_elements(d.queue) WITH ORDINALITY AS places (place, number)
                WHERE place->>'holder' <> $3
            )
            WHEN verdict IN ('again', 'leaving') OR own_place IS NULL THEN d.queue
            WHEN before < waiting THEN jsonb_set(d.queue, ARRAY[before::text], own_place)
            ELSE d.queue || jsonb_build_array(own_place)
        END
    FROM decided AS d WHERE l.name = d.name
    RETURNING d.verdict, l.token, l.last, l.owner, l.queue, d.before, d.now, d.epoch, l.deadline, l.rests_until,
        d.own_place IS NOT NULL OR d.before < d.waiting AS queued
)
SELECT verdict, CASE verdict WHEN 'queued' THEN last ELSE token END AS token,
    CASE verdict WHEN 'queued' THEN queue->0->'owner' ELSE owner END AS owner,
    CASE WHEN queued AND verdict <> 'leaving' THEN before ELSE -1 END AS ahead,
    CASE verdict WHEN 'queued' THEN (queue->0->>'until')::float8 - epoch
        ELSE extract(epoch FROM coalesce(deadline, rests_until) - now)::float8 END AS remaining
FROM done"""

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
        queue = d.queue
    FROM judged AS d WHERE l.name = d.name
    RETURNING d.ours, d.holder <> '' AS held, d.asked_to_leave
)
SELECT * FROM done"""

_RELEASE = """, ours AS MATERIALIZED (
    SELECT *, was_holder = $3 AND $3 <> '' AND $4::bigint IN (0, token) AS matches,
        granted_at + $5::float8 * interval '1 second' AS earliest,
        (
            SELECT coalesce(jsonb_agg(place ORDER BY $6 <> '' AND $6 IN (
                    place->'owner'->>'process', place->'owner'->>'pod', place->'owner'->>'host',
                    place->'owner'->>'label'
                ) DESC, number), '[]')
            FROM jsonb_array_elements(queue) WITH ORDINALITY AS places (place, number)
            WHERE place->>'holder' <> $3
        ) AS promoted,
        (
            SELECT coalesce(jsonb_agg(place ORDER BY number), '[]')
            FROM jsonb_array_elements(queue) WITH ORDINALITY AS places (place, number)
            WHERE place->>'holder' <> $3
        ) AS without
    FROM lease
), done AS (
    UPDATE {schema}.leases AS l SET
        holder = CASE WHEN matches THEN '' ELSE d.holder END,
        deadline = CASE WHEN NOT matches THEN d.deadline END,
        asked_to_leave = CASE WHEN matches THEN '' ELSE d.asked_to_leave END,
        rest = CASE WHEN NOT matches THEN d.rest WHEN d.now < earliest THEN $5 ELSE 0 END,
        rests_until = CASE WHEN NOT matches THEN d.rests_until
            WHEN d.now < earliest THEN least(earliest, d.now + $5 * interval '1 second') END,
        queue = CASE WHEN matches THEN promoted ELSE without END
    FROM ours AS d WHERE l.name = d.name
    RETURNING d.matches, d.matches AND d.holder <> '' AS held, l.holder = '' AS free
)
SELECT held, CASE WHEN matches OR free THEN pg_notify('{channel}', $2) END AS told FROM done"""

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
        queue = d.queue
    FROM judged AS d WHERE l.name = d.name
    RETURNING d.matches, d.frees, CASE WHEN d.holder <> '' THEN d.token ELSE 0 END AS token,
        CASE WHEN d.frees THEN 0 ELSE extract(epoch FROM d.deadline - d.now)::float8 END AS remaining
), audited AS (
    INSERT INTO {schema}.lease_audits (name, token, by_whom, at, overrode, owner)
    SELECT name, token, $4, now, $5, owner FROM judged WHERE matches AND $6::bool
    RETURNING id
), pruned AS (
    DELETE FROM {schema}.lease_audits USING audited WHERE lease_audits.id <= audited.id - {kept}
)
SELECT matches, token, remaining, CASE WHEN matches THEN pg_notify('{channel}', $2) END AS told FROM done"""

_VIEW = """
SELECT name, token, holder <> '' AS held, owner, extract(epoch FROM granted_at)::float8 AS granted_at,
    extract(epoch FROM renewed_at)::float8 AS renewed_at, asked_to_leave, queue,
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
        SELECT FROM jsonb_array_elements(queue) AS place
        WHERE extract(epoch FROM clock_timestamp())::float8 < (place->>'until')::float8
    )
    LIMIT $3 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {schema}.leases AS l USING old WHERE l.name = old.name RETURNING l.name
)
SELECT count(*) AS pruned FROM gone"""


@dataclass(frozen=True, slots=True)
class Statements:
    """All statements for the tables in one schema.

    `make`: an empty row is the same as none; a step needs one to lock. It is as young as a used one, lest `prune`
    deletes it before that.
    """

    make: str
    ask: str
    renew: str
    release: str
    check: str
    force: str
    show: str
    views: str
    audits: str
    prune: str

    @classmethod
    def of(cls, schema: str) -> Statements:
        """`schema`: as it is to stand in SQL."""

        def text(*parts: str, durable: str = "", which: str = "") -> str:
            return "".join(parts).format(
                schema=schema,
                durable=durable,
                which=which,
                channel=CHANNEL,
                kept=KEPT_AUDITS,
                most_waiting=MOST_WAITING,
            )

        return cls(
            make=text(_MAKE),
            ask=text(_LOCKED, _SETTLED, _ASK, durable=_DURABLE),
            renew=text(_LOCKED, _SETTLED, _RENEW, durable=_DURABLE),
            release=text(_LOCKED, _SETTLED, _RELEASE, durable=_DURABLE),
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
