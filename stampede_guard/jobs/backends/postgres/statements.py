"""The steps of `jobs.rules` as SQL, one statement each. It reads the clock after it has locked its rows.

Every statement locks the job's row before the rows of its slots, so no two statements deadlock. A slot that no worker
has claimed has no row to lock. `make` inserts an empty row, which means the same as no row.
"""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.jobs.rules import LONGEST_BY, LONGEST_ERROR, VANISHED

__all__ = ["JobStatements"]

_PATIENCE = ", (SELECT set_config('lock_timeout', $1, true) {durable}) AS patience"
_DURABLE = """, CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
        THEN set_config('synchronous_commit', 'on', true) END"""

_VIEW = """name, schedule, fingerprint, rhythm, version, extract(epoch FROM registered_at)::float8 AS registered_at,
    extract(epoch FROM scheduled_at)::float8 AS scheduled_at, extract(epoch FROM clock_timestamp())::float8 AS at,
    extract(epoch FROM seen_at)::float8 AS seen_at, seen_for,
    last_slot, coalesce(extract(epoch FROM last_success_at)::float8, 0) AS last_success_at,
    coalesce(extract(epoch FROM last_failure_at)::float8, 0) AS last_failure_at, last_error,
    coalesce(extract(epoch FROM paused_at)::float8, 0) AS paused_at, paused_by,
    coalesce(extract(epoch FROM resumed_at)::float8, 0) AS resumed_at,
    ARRAY(SELECT slot FROM {schema}.runs WHERE job = name AND outcome = 'running' ORDER BY slot) AS running"""

_SCHEDULED = """
    scheduled_at = CASE WHEN {counts} AND excluded.fingerprint <> j.fingerprint
        THEN clock_timestamp() ELSE j.scheduled_at END,
    seen_at = CASE WHEN {counts} OR excluded.fingerprint = j.fingerprint THEN clock_timestamp() ELSE j.seen_at END,
    seen_for = CASE
        WHEN excluded.fingerprint = j.fingerprint THEN greatest(excluded.seen_for, least(j.seen_for,
            j.seen_for - extract(epoch FROM clock_timestamp() - j.seen_at)::float8))
        WHEN {counts} THEN excluded.seen_for ELSE j.seen_for END,
    schedule = CASE WHEN {counts} THEN excluded.schedule ELSE j.schedule END,
    fingerprint = CASE WHEN {counts} THEN excluded.fingerprint ELSE j.fingerprint END,
    rhythm = CASE WHEN {counts} THEN excluded.rhythm ELSE j.rhythm END,
    version = CASE WHEN {counts} THEN excluded.version ELSE j.version END"""

_REGISTER = """
INSERT INTO {schema}.jobs AS j
    (name, schedule, fingerprint, rhythm, version, seen_for, registered_at, scheduled_at, seen_at)
SELECT $1, $2, $3, $4, $5, $6, now, now, now FROM (SELECT clock_timestamp() AS now) AS clock
ON CONFLICT (name) DO UPDATE SET"""

_FOLLOW = """
WITH followed AS (UPDATE {schema}.jobs AS j SET"""
_FOLLOWED = """
    FROM (SELECT $1::text AS name, $2::text AS schedule, $3::text AS fingerprint, $4::float8 AS rhythm,
        $5::bigint AS version, $6::float8 AS seen_for) AS excluded
    WHERE j.name = excluded.name RETURNING j.*
)
SELECT """

_ALL = """unnest($1::text[], $2::text[], $3::text[], $4::float8[], $5::bigint[], $6::float8[])
    AS given (name, schedule, fingerprint, rhythm, version, seen_for)"""

_REGISTER_ALL = """
INSERT INTO {schema}.jobs AS j
    (name, schedule, fingerprint, rhythm, version, seen_for, registered_at, scheduled_at, seen_at)
SELECT given.*, now, now, now FROM {all}, (SELECT clock_timestamp() AS now) AS clock ORDER BY given.name
ON CONFLICT (name) DO UPDATE SET"""

_LOOK = """
WITH given AS MATERIALIZED (
    SELECT given.*, tries FROM {all} JOIN unnest($1, $7::int[]) AS wanted (name, tries) USING (name)
), locked AS MATERIALIZED (
    -- Every worker locks in the order of names, so no two workers deadlock.
    SELECT j.name FROM {schema}.jobs AS j JOIN given ON given.name = j.name ORDER BY j.name FOR UPDATE OF j
), swept AS (
    UPDATE {schema}.runs AS r SET outcome = 'abandoned', finished_at = clock_timestamp(), error = '{vanished}'
    FROM locked WHERE r.job = locked.name AND r.outcome = 'running' AND clock_timestamp() >= r.alive_until
    RETURNING r.*
), failed AS MATERIALIZED (
    SELECT DISTINCT job FROM swept
), followed AS (UPDATE {schema}.jobs AS j SET
    last_failure_at = CASE WHEN failed.job IS NULL THEN j.last_failure_at ELSE clock_timestamp() END,
    last_error = CASE WHEN failed.job IS NULL THEN j.last_error ELSE '{vanished}' END,"""
_LOOKED = """
    FROM given AS excluded LEFT JOIN failed ON failed.job = excluded.name
    WHERE j.name = excluded.name AND j.name IN (SELECT name FROM locked) RETURNING j.*
)
SELECT seen.*, (
    SELECT coalesce(json_agg(rows ORDER BY slot), '[]')::text FROM (
        SELECT {run} FROM swept WHERE swept.job = seen.name
    ) AS rows
) AS vanished, (
    SELECT coalesce(json_agg(rows ORDER BY slot), '[]')::text FROM (
        SELECT {run} FROM {schema}.runs JOIN given ON given.name = runs.job
        WHERE runs.job = seen.name AND outcome = 'abandoned' AND attempt < attempts AND attempt < tries
        ORDER BY slot LIMIT $8
    ) AS rows
) AS again
FROM (SELECT """

_TAKE_OVER = """
UPDATE {schema}.jobs SET schedule = $2, fingerprint = $3, rhythm = $4, version = $5, seen_for = $6,
    scheduled_at = seen_at, seen_at = clock_timestamp()
WHERE name = $1 AND fingerprint <> $3 AND seen_for > 0
    AND clock_timestamp() >= seen_at + seen_for * interval '1 second' RETURNING 1"""

_MAKE = """
WITH job AS MATERIALIZED (
    SELECT *, extract(epoch FROM clock_timestamp()) * 1000 AS now_ms FROM {schema}.jobs WHERE name = $1
), made AS (
    INSERT INTO {schema}.runs (job, slot)
    SELECT name, $2::bigint FROM job WHERE fingerprint = $3 AND $2 <= now_ms AND $2 > pruned_to
        AND (paused_at IS NULL OR $4::bool)
    ON CONFLICT (job, slot) DO NOTHING
)
SELECT schedule, fingerprint, pruned_to, ($2 - now_ms)::float8 / 1000 AS remaining,
    paused_at IS NOT NULL AND NOT $4 AS refused, paused_by FROM job"""

_LOCKED = """
WITH seen AS MATERIALIZED (
    SELECT r.*, j.name, j.schedule, j.fingerprint, j.pruned_to, j.last_slot, j.last_success_at,
        j.last_success_began, j.last_failure_at, j.last_error, j.paused_at, j.paused_by
    FROM {schema}.jobs AS j JOIN {schema}.runs AS r ON r.job = j.name {patience}
    WHERE j.name = {job} AND r.slot = {slot} FOR UPDATE OF j, r
), timed AS MATERIALIZED (
    SELECT *, clock_timestamp() AS now FROM seen
)"""

_CLAIM = """, judged AS MATERIALIZED (
    SELECT *, extract(epoch FROM now) * 1000 - slot AS late_ms, outcome = 'running' AND now >= alive_until AS lapses,
        fingerprint = $5 AND slot <= extract(epoch FROM now) * 1000 AS counts,
        paused_at IS NOT NULL AND NOT $9::bool AS refused
    FROM timed
), decided AS MATERIALIZED (
    SELECT *, CASE
            WHEN fingerprint <> $5 THEN 'outdated'
            WHEN NOT counts THEN 'early'
            WHEN outcome = 'running' AND run = $4 THEN 'again'
            WHEN outcome = '' AND slot <= pruned_to THEN 'forgotten'
            WHEN outcome = '' AND refused THEN 'paused'
            WHEN outcome = '' THEN 'claimed'
            WHEN NOT refused AND (outcome = 'abandoned' OR lapses) AND attempt < least(attempts, $8::int) THEN 'claimed'
            WHEN lapses THEN 'lapsed'
            ELSE 'taken'
        END AS verdict
    FROM judged
), done AS (
    UPDATE {schema}.runs AS r SET
        run = CASE verdict WHEN 'claimed' THEN $4 ELSE d.run END,
        outcome = CASE verdict WHEN 'claimed' THEN 'running' WHEN 'lapsed' THEN 'abandoned' ELSE d.outcome END,
        attempt = CASE verdict WHEN 'claimed' THEN d.attempt + 1 ELSE d.attempt END,
        attempts = CASE verdict WHEN 'claimed' THEN $8 ELSE d.attempts END,
        alive_until = CASE verdict WHEN 'claimed' THEN d.now + $7::float8 * interval '1 second'
            WHEN 'again' THEN greatest(d.alive_until, d.now + $7 * interval '1 second') ELSE d.alive_until END,
        started_at = CASE verdict WHEN 'claimed' THEN d.now ELSE d.started_at END,
        owner = CASE verdict WHEN 'claimed' THEN $6::jsonb ELSE d.owner END,
        token = CASE verdict WHEN 'claimed' THEN 0 ELSE d.token END,
        finished_at = CASE verdict WHEN 'claimed' THEN NULL WHEN 'lapsed' THEN d.now ELSE d.finished_at END,
        error = CASE verdict WHEN 'claimed' THEN '' WHEN 'lapsed' THEN '{vanished}' ELSE d.error END,
        counters = CASE verdict WHEN 'claimed' THEN '{{}}' ELSE d.counters END
    FROM decided AS d WHERE r.job = d.job AND r.slot = d.slot
    RETURNING d.verdict, r.outcome, r.attempt
), noted AS (
    UPDATE {schema}.jobs AS j SET
        last_slot = CASE WHEN verdict = 'claimed' AND NOT $9::bool THEN greatest(d.last_slot, d.slot)
            ELSE d.last_slot END,
        last_failure_at = CASE WHEN lapses THEN d.now ELSE d.last_failure_at END,
        last_error = CASE WHEN lapses THEN '{vanished}' ELSE d.last_error END
    FROM decided AS d WHERE j.name = d.name AND verdict IN ('claimed', 'lapsed')
)
SELECT done.verdict, done.outcome, done.attempt, d.schedule, d.paused_by, d.late_ms::float8 / 1000 AS late,
    coalesce(extract(epoch FROM d.last_success_at)::float8, 0) AS last_success_at,
    coalesce(extract(epoch FROM d.last_success_began)::float8, 0) AS last_success_began
FROM done, decided AS d"""

_PAUSE = """
WITH paused AS (
    UPDATE {schema}.jobs SET paused_by = CASE WHEN paused_at IS NULL THEN left($2::text, {longest}) ELSE paused_by END,
        paused_at = coalesce(paused_at, clock_timestamp())
    WHERE name = $1 RETURNING *
)
SELECT """

_RESUME = """
WITH resumed AS (
    UPDATE {schema}.jobs SET resumed_at = CASE WHEN paused_at IS NULL THEN resumed_at ELSE clock_timestamp() END,
        paused_at = NULL, paused_by = ''
    WHERE name = $1 RETURNING *
)
SELECT """

_BEAT = """
UPDATE {schema}.runs SET
    alive_until = greatest(alive_until, clock_timestamp() + $4::float8 * interval '1 second'),
    token = greatest(token, $5::bigint)
WHERE job = $1 AND slot = $2 AND run = $3 AND outcome = 'running' RETURNING 1"""

_FINISH = """, ours AS MATERIALIZED (
    SELECT * FROM timed WHERE run = {run} AND outcome = 'running'
), done AS (
    UPDATE {schema}.runs AS r SET
        outcome = {outcome},
        finished_at = d.now,
        error = {error},
        token = greatest(d.token, {token}::bigint),
        counters = {counters}::jsonb
    FROM ours AS d WHERE r.job = d.job AND r.slot = d.slot
), noted AS (
    UPDATE {schema}.jobs AS j SET
        last_success_at = CASE WHEN {outcome} = 'completed' THEN d.now ELSE d.last_success_at END,
        last_success_began = CASE WHEN {outcome} = 'completed' THEN greatest(d.last_success_began, d.started_at)
            ELSE d.last_success_began END,
        last_failure_at = CASE WHEN {outcome} IN ('failed', 'abandoned') THEN d.now ELSE d.last_failure_at END,
        last_error = CASE WHEN {outcome} IN ('failed', 'abandoned') THEN {error} ELSE d.last_error END
    FROM ours AS d WHERE j.name = d.name
)
SELECT count(*) AS ended FROM ours"""

_JOB = """
WITH job AS MATERIALIZED (
    SELECT j.* FROM {schema}.jobs AS j {patience} WHERE j.name = $2 FOR UPDATE OF j
), timed AS MATERIALIZED (
    SELECT *, clock_timestamp() AS now FROM job
)"""

_RECORD = """, done AS (
    INSERT INTO {schema}.runs AS r (job, slot, outcome, finished_at, error)
    SELECT name, slot, $4, now, $5 FROM timed, (SELECT DISTINCT unnest($3::bigint[]) AS slot) AS slots
    WHERE slot > pruned_to AND slot <= extract(epoch FROM now) * 1000
    ON CONFLICT (job, slot) DO UPDATE SET
        outcome = excluded.outcome, finished_at = excluded.finished_at, error = excluded.error
    WHERE r.outcome = ''
    RETURNING slot
), noted AS (
    UPDATE {schema}.jobs AS j SET last_slot = greatest(j.last_slot, (SELECT max(slot) FROM done))
    FROM timed WHERE j.name = timed.name
)
SELECT count(*) AS recorded FROM done"""

_SWEEP = """, done AS (
    UPDATE {schema}.runs AS r SET outcome = 'abandoned', finished_at = now, error = '{vanished}'
    FROM timed WHERE r.job = timed.name AND r.outcome = 'running' AND now >= r.alive_until
    RETURNING r.*
), noted AS (
    UPDATE {schema}.jobs AS j SET last_failure_at = now, last_error = '{vanished}'
    FROM timed WHERE j.name = timed.name AND EXISTS (SELECT FROM done)
)
SELECT {run} FROM done ORDER BY slot"""

_RUN = """job, slot, run, outcome, attempt, attempts, owner, token,
    coalesce(extract(epoch FROM started_at)::float8, 0) AS started_at,
    coalesce(extract(epoch FROM finished_at)::float8, 0) AS finished_at, error, counters"""

_RETRIABLE = """
SELECT {run} FROM {schema}.runs
WHERE job = $1 AND outcome = 'abandoned' AND attempt < attempts AND attempt < $2 ORDER BY slot LIMIT $3"""

_HISTORY = """
SELECT {run} FROM {schema}.runs
WHERE job = $1 AND outcome <> '' AND ($3::bigint IS NULL OR slot < $3) ORDER BY slot DESC LIMIT $2"""

_OF_OUTCOMES = """
SELECT {run} FROM (SELECT DISTINCT unnest($4::text[]) AS wanted) AS outcomes CROSS JOIN LATERAL (
    SELECT * FROM {schema}.runs
    WHERE runs.job = $1 AND runs.outcome = wanted AND -slot > -coalesce($3::bigint, 9223372036854775807)
    ORDER BY -slot LIMIT $2
) AS found
ORDER BY slot DESC LIMIT $2"""

_PRUNE = """, bounds AS MATERIALIZED (
    SELECT now, (SELECT slot FROM {schema}.runs WHERE job = $2 AND outcome NOT IN ('', 'running')
            ORDER BY slot DESC OFFSET $3 LIMIT 1) AS kept,
        (SELECT slot FROM {schema}.runs WHERE job = $2 AND outcome NOT IN ('', 'running')
            ORDER BY slot DESC OFFSET $5 LIMIT 1) AS most
    FROM timed
), old AS MATERIALIZED (
    SELECT r.slot FROM {schema}.runs AS r, bounds
    WHERE r.job = $2 AND r.outcome <> 'running' AND (r.slot <= bounds.most OR (
        r.slot < (extract(epoch FROM now)::float8 - $4::float8) * 1000 AND (r.slot <= bounds.kept OR r.outcome = '')))
    ORDER BY r.slot LIMIT $6
), done AS (
    DELETE FROM {schema}.runs AS r USING old WHERE r.job = $2 AND r.slot = old.slot
    RETURNING r.slot, r.outcome
), noted AS (
    UPDATE {schema}.jobs AS j SET pruned_to = greatest(pruned_to, (SELECT max(slot) FROM done WHERE outcome <> ''))
    WHERE j.name = $2
)
SELECT count(*) FILTER (WHERE outcome <> '') AS pruned, count(*) AS gone FROM done"""

_FORGET = """, runs AS (DELETE FROM {schema}.runs WHERE job = $2
), done AS (DELETE FROM {schema}.jobs AS j USING timed WHERE j.name = timed.name RETURNING 1)
SELECT count(*) AS forgotten FROM done"""


@dataclass(frozen=True, slots=True)
class JobStatements:
    """All statements for the tables in one schema.

    `finish_in` runs in the application's transaction, so it leaves the settings of that transaction alone.
    """

    register: str
    follow: str
    register_all: str
    look: str
    take_over: str
    make: str
    claim: str
    pause: str
    resume: str
    beat: str
    finish: str
    finish_in: str
    record: str
    sweep: str
    retriable: str
    view: str
    views: str
    history: str
    of_outcomes: str
    prune: str
    forget: str

    @classmethod
    def of(cls, schema: str) -> JobStatements:
        """`schema`: the name as written in SQL, quoted if necessary."""
        patience, durable = _PATIENCE.format(durable=""), _PATIENCE.format(durable=_DURABLE)

        def text(*parts: str, **words: str) -> str:
            return "".join(part.format(schema=schema, vanished=VANISHED, **words) for part in parts)

        def finish(patience: str, *names: str) -> str:
            job, slot, run, outcome, error, token, counters = names
            return text(_LOCKED, patience=patience, job=job, slot=slot) + text(
                _FINISH,
                run=run,
                outcome=outcome,
                error=f"left({error}, {LONGEST_ERROR})",
                token=token,
                counters=counters,
            )

        return cls(
            register=text(
                _REGISTER, _SCHEDULED, " RETURNING ", _VIEW, counts="excluded.version >= j.version"
            ),
            follow=text(
                _FOLLOW,
                _SCHEDULED,
                _FOLLOWED,
                _VIEW,
                " FROM followed",
                counts="excluded.version > j.version",
            ),
            register_all=text(_REGISTER_ALL, all=_ALL)
            + text(_SCHEDULED, " RETURNING ", _VIEW, counts="excluded.version >= j.version"),
            look=text(_LOOK, all=_ALL)
            + text(_SCHEDULED, counts="excluded.version > j.version")
            + text(_LOOKED, run=_RUN)
            + text(_VIEW, " FROM followed) AS seen"),
            take_over=text(_TAKE_OVER),
            make=text(_MAKE),
            claim=text(_LOCKED, patience=durable, job="$2", slot="$3") + text(_CLAIM),
            pause=text(_PAUSE, _VIEW, " FROM paused", longest=str(LONGEST_BY)),
            resume=text(_RESUME, _VIEW, " FROM resumed"),
            beat=text(_BEAT),
            # Durable: if a crash of the server lost this outcome, the run would count as vanished and might run again.
            finish=finish(durable, "$2", "$3", "$4", "$5::text", "$6::text", "$7", "$8"),
            finish_in=finish("", "$1", "$2", "$3", "$4::text", "$5::text", "$6", "$7"),
            record=text(_JOB, _RECORD, patience=patience),
            sweep=text(_JOB, _SWEEP, patience=patience, run=_RUN),
            retriable=text(_RETRIABLE, run=_RUN),
            view=text("SELECT ", _VIEW, " FROM {schema}.jobs WHERE name = $1"),
            views=text(
                "SELECT ", _VIEW, " FROM {schema}.jobs WHERE starts_with(name, $1) ORDER BY name LIMIT $2"
            ),
            history=text(_HISTORY, run=_RUN),
            of_outcomes=text(_OF_OUTCOMES, run=_RUN),
            prune=text(_JOB, _PRUNE, patience=patience),
            forget=text(_JOB, _FORGET, patience=patience),
        )
