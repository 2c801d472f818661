-- Tables of stampede_guard's leases. You may run this file again at any time: existing tables stay unchanged.
-- For another schema: replace the word stampede_guard wherever a point follows it, and in the first statement.

CREATE SCHEMA IF NOT EXISTS stampede_guard;

-- One row per name. A row that is not held is kept for its last token. `holder` = '' or a past `deadline`: not held.
CREATE TABLE IF NOT EXISTS stampede_guard.leases (
    name text PRIMARY KEY,
    last bigint NOT NULL DEFAULT 0,
    holder text NOT NULL DEFAULT '',
    token bigint NOT NULL DEFAULT 0,
    owner jsonb NOT NULL DEFAULT '{}',
    lease_ttl double precision NOT NULL DEFAULT 0,
    granted_at timestamptz,
    renewed_at timestamptz,
    deadline timestamptz,
    rest double precision NOT NULL DEFAULT 0,
    rests_until timestamptz,
    asked_to_leave text NOT NULL DEFAULT '',
    -- Waiters are in `lease_places`. This column is only for processes of the previous version.
    queue jsonb NOT NULL DEFAULT '[]',
    -- The witness shows that the holder's process lives; '' = unknown. `missing_since`: when it was first seen missing.
    witness text NOT NULL DEFAULT '',
    missing_since timestamptz
) WITH (fillfactor = 50);

-- Tables of the previous version lack newer columns. Check first, because ALTER would wait for every transaction.
DO $$ BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = 'stampede_guard.leases'::regclass AND attname = 'missing_since'
    ) THEN
        ALTER TABLE stampede_guard.leases
            ADD COLUMN IF NOT EXISTS witness text NOT NULL DEFAULT '', ADD COLUMN IF NOT EXISTS missing_since timestamptz;
    END IF;
END $$;

-- The newest thousand actions of operators.
CREATE TABLE IF NOT EXISTS stampede_guard.lease_audits (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    token bigint NOT NULL,
    by_whom text NOT NULL,
    at timestamptz NOT NULL,
    overrode boolean NOT NULL,
    owner jsonb NOT NULL
);

-- One row per job: its schedule and its last results. Slots are milliseconds since 1970, in UTC.
CREATE TABLE IF NOT EXISTS stampede_guard.jobs (
    name text PRIMARY KEY,
    schedule text NOT NULL,
    fingerprint text NOT NULL,
    rhythm double precision NOT NULL,
    version bigint NOT NULL,
    registered_at timestamptz NOT NULL,
    scheduled_at timestamptz NOT NULL,
    -- When a process with this schedule last reported, and for how many seconds that counts; 0 = for ever.
    seen_at timestamptz NOT NULL,
    seen_for double precision NOT NULL DEFAULT 0,
    pruned_to bigint NOT NULL DEFAULT 0,
    last_slot bigint NOT NULL DEFAULT 0,
    last_success_at timestamptz,
    last_success_began timestamptz,
    last_failure_at timestamptz,
    last_error text NOT NULL DEFAULT '',
    -- A job with `paused_at` is paused: no claim takes a slot of it.
    paused_at timestamptz,
    paused_by text NOT NULL DEFAULT '',
    resumed_at timestamptz
) WITH (fillfactor = 50);

DO $$ BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = 'stampede_guard.jobs'::regclass AND attname = 'resumed_at'
    ) THEN
        ALTER TABLE stampede_guard.jobs
            ADD COLUMN IF NOT EXISTS paused_at timestamptz, ADD COLUMN IF NOT EXISTS paused_by text NOT NULL DEFAULT '',
            ADD COLUMN IF NOT EXISTS resumed_at timestamptz;
    END IF;
END $$;

-- One row per slot: running, or with its one outcome. `outcome` = '': a claim is about to follow; the same as no row.
CREATE TABLE IF NOT EXISTS stampede_guard.runs (
    job text NOT NULL,
    slot bigint NOT NULL,
    run text NOT NULL DEFAULT '',
    outcome text NOT NULL DEFAULT ''
        CHECK (outcome IN ('', 'running', 'completed', 'failed', 'missed', 'skipped', 'abandoned')),
    -- The number of this attempt, and how many attempts are allowed in all.
    attempt integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    alive_until timestamptz,
    started_at timestamptz,
    owner jsonb,
    token bigint NOT NULL DEFAULT 0,
    finished_at timestamptz,
    error text NOT NULL DEFAULT '',
    counters jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (job, slot)
) WITH (fillfactor = 70);

CREATE INDEX IF NOT EXISTS runs_running ON stampede_guard.runs (job) WHERE outcome = 'running';
CREATE INDEX IF NOT EXISTS runs_again ON stampede_guard.runs (job, slot) WHERE outcome = 'abandoned' AND attempt < attempts;
-- Finds a rare outcome without reading the others. The slot is negative (newest first), an order that the primary key
-- cannot give. Otherwise a planner that expects many rows of an outcome would walk that key and read every run.
CREATE INDEX IF NOT EXISTS runs_outcome ON stampede_guard.runs (job, outcome, (-slot));

-- Steps that read the queue. Each is one call on one row of `leases`, which it locks first. They are functions, so that
-- they read the queue as it is after the lock. A single statement would read it as it was when the statement began.
-- A step reads and writes a bounded number of places, however many wait. The rules are those of leases/core/grants.py.

-- The waiters, one row each. `position`: the order. `called`: it was called and has not asked since.
CREATE TABLE IF NOT EXISTS stampede_guard.lease_places (
    name text NOT NULL,
    holder text NOT NULL,
    position bigint NOT NULL,
    owner jsonb NOT NULL,
    until timestamptz NOT NULL,
    seconds double precision NOT NULL,
    turn double precision NOT NULL DEFAULT 0,
    called boolean NOT NULL DEFAULT false,
    PRIMARY KEY (name, holder)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS lease_places_order ON stampede_guard.lease_places (name, position);
CREATE INDEX IF NOT EXISTS lease_places_until ON stampede_guard.lease_places (name, until);

-- Whether the process of this `witness` has ended; NULL = unknown to this server. A witness is an advisory lock of a
-- session (after the point) in one life of this server and one database (before it). Each database has its own locks.
CREATE OR REPLACE FUNCTION stampede_guard.leases_gone(witness text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF witness = ''
        OR split_part(witness, '.', 1) <> (
            SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || '-' || oid
            FROM pg_database WHERE datname = current_database())
    THEN
        RETURN NULL;
    END IF;
    -- A shared lock, so that two checks do not take each other for the holder. It ends with this transaction.
    RETURN pg_try_advisory_xact_lock_shared(split_part(witness, '.', 2)::bigint);
END $$;

-- Deletes lapsed places. If the clock was set back, cuts places to the time that was requested. It was set back if the
-- row was renewed later than now (`set_back`), or if the place that lasts longest lasts longer than was requested.
CREATE OR REPLACE FUNCTION stampede_guard.leases_lapse(asked text, now timestamptz, set_back boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    longest stampede_guard.lease_places%ROWTYPE;
BEGIN
    DELETE FROM stampede_guard.lease_places AS p WHERE p.name = asked AND p.until <= now;
    SELECT p.* INTO longest FROM stampede_guard.lease_places AS p WHERE p.name = asked ORDER BY p.until DESC LIMIT 1;
    IF set_back OR longest.until > now + longest.seconds * interval '1 second' THEN
        UPDATE stampede_guard.lease_places AS p SET until = now + p.seconds * interval '1 second'
        WHERE p.name = asked AND p.until > now + p.seconds * interval '1 second';
    END IF;
END $$;

-- Calls the first waiters: notifies them once each that it may be their turn.
CREATE OR REPLACE FUNCTION stampede_guard.leases_call(asked text, now timestamptz, most int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    holders text;
BEGIN
    WITH first AS (
        SELECT p.holder, p.position FROM stampede_guard.lease_places AS p
        WHERE p.name = asked ORDER BY p.position LIMIT most
    ), told AS (
        UPDATE stampede_guard.lease_places AS p SET called = true,
            until = CASE WHEN p.turn > 0 THEN least(p.until, now + p.turn * interval '1 second') ELSE p.until END
        FROM first WHERE p.name = asked AND p.holder = first.holder AND NOT p.called
        RETURNING p.holder, first.position
    )
    SELECT string_agg(told.holder, ' ' ORDER BY told.position) INTO holders FROM told;
    IF holders IS NOT NULL THEN
        PERFORM pg_notify('stampede_guard_leases_called', holders);
    END IF;
END $$;

-- An operator has freed the lease.
CREATE OR REPLACE FUNCTION stampede_guard.leases_freed(asked text, now timestamptz, most int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stampede_guard.leases_lapse(asked, now, false);
    PERFORM stampede_guard.leases_call(asked, now, most);
END $$;

CREATE OR REPLACE FUNCTION stampede_guard.leases_ask(
    patience text, asked text, asker text, asker_owner jsonb, ttl float8, place float8, its_turn float8, its_witness text,
    most_waiting int, most_called int, gone_for float8,
    OUT verdict text, OUT token bigint, OUT owner jsonb, OUT remaining float8, OUT ahead int
) LANGUAGE plpgsql AS $$
DECLARE
    l stampede_guard.leases%ROWTYPE;
    mine stampede_guard.lease_places%ROWTYPE;
    first stampede_guard.lease_places%ROWTYPE;
    now timestamptz;
    held boolean;
    resting boolean;
    missing timestamptz;
    till timestamptz;
    stale boolean;
    waiting int;
BEGIN
    SELECT * INTO l FROM stampede_guard.leases WHERE name = asked;
    IF NOT FOUND THEN
        verdict := 'unknown';
        RETURN;
    END IF;
    now := clock_timestamp();
    -- A waiter that only keeps its place needs no row lock, and its commit need not wait for the disk.
    IF place > 0 AND l.holder NOT IN ('', asker) AND now < l.deadline AND l.renewed_at <= now
        AND l.missing_since IS NULL AND stampede_guard.leases_gone(l.witness) IS NOT TRUE
    THEN
        UPDATE stampede_guard.lease_places AS p SET until = now + place * interval '1 second', seconds = place,
            turn = its_turn, called = false
        WHERE p.name = asked AND p.holder = asker AND p.until > now RETURNING p.* INTO mine;
        IF FOUND THEN
            PERFORM set_config('synchronous_commit', 'off', true);
            verdict := 'held';
            token := l.token;
            owner := l.owner;
            remaining := extract(epoch FROM l.deadline - now);
            SELECT count(*) INTO ahead FROM stampede_guard.lease_places AS p
            WHERE p.name = asked AND p.position < mine.position AND p.until > now;
            RETURN;
        END IF;
    END IF;

    PERFORM set_config('lock_timeout', patience, true);
    SELECT * INTO l FROM stampede_guard.leases WHERE name = asked FOR UPDATE;
    IF NOT FOUND THEN
        verdict := 'unknown';
        RETURN;
    END IF;
    now := clock_timestamp();
    held := l.holder <> '' AND now < l.deadline;
    -- A step that decides saves the cut values: a clock that is set back later must not make the old ones valid again.
    stale := l.deadline > now + l.lease_ttl * interval '1 second' OR l.rests_until <= now
        OR l.rests_until > now + l.rest * interval '1 second';
    l.deadline := CASE WHEN held THEN least(l.deadline, now + l.lease_ttl * interval '1 second') END;
    l.rests_until := CASE WHEN l.rest > 0 AND now < l.rests_until
        THEN least(l.rests_until, now + l.rest * interval '1 second') END;
    resting := l.rests_until IS NOT NULL;
    PERFORM stampede_guard.leases_lapse(asked, now, l.renewed_at > now);

    IF held AND l.holder = asker THEN
        token := l.token;
        owner := l.owner;
        ahead := -1;
        remaining := extract(epoch FROM l.deadline - now);
        verdict := CASE WHEN l.asked_to_leave <> '' THEN 'leaving' ELSE 'again' END;
        IF verdict = 'again' THEN
            IF current_setting('synchronous_commit') IN ('off', 'local') THEN
                PERFORM set_config('synchronous_commit', 'on', true);
            END IF;
            UPDATE stampede_guard.leases AS u SET lease_ttl = greatest(l.lease_ttl, ttl), renewed_at = now,
                deadline = greatest(l.deadline, now + ttl * interval '1 second'), rests_until = l.rests_until,
                witness = its_witness, missing_since = NULL
            WHERE u.name = asked;
        END IF;
        RETURN;
    END IF;

    missing := CASE WHEN l.missing_since <= now THEN l.missing_since END;
    IF held AND l.witness <> '' THEN
        IF stampede_guard.leases_gone(l.witness) IS NOT TRUE THEN
            missing := NULL;
        ELSIF missing IS NULL THEN
            missing := now;
        ELSIF now - missing >= gone_for * interval '1 second' THEN
            held := false;
        END IF;
    ELSE
        missing := NULL;
    END IF;

    SELECT p.* INTO first FROM stampede_guard.lease_places AS p WHERE p.name = asked ORDER BY p.position LIMIT 1;
    IF NOT held AND NOT resting AND (first.holder IS NULL OR first.holder = asker) THEN
        IF current_setting('synchronous_commit') IN ('off', 'local') THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
        DELETE FROM stampede_guard.lease_places AS p WHERE p.name = asked AND p.holder = asker;
        token := greatest(l.last + 1, (extract(epoch FROM now) * 1000000)::bigint);
        UPDATE stampede_guard.leases AS u SET last = leases_ask.token, holder = asker, token = leases_ask.token,
            owner = asker_owner, lease_ttl = ttl, granted_at = now, renewed_at = now,
            deadline = now + ttl * interval '1 second', rest = 0, rests_until = NULL, asked_to_leave = '',
            witness = its_witness, missing_since = NULL
        WHERE u.name = asked;
        verdict := 'granted';
        RETURN;
    END IF;

    SELECT p.* INTO mine FROM stampede_guard.lease_places AS p WHERE p.name = asked AND p.holder = asker;
    ahead := -1;
    IF mine.holder IS NOT NULL THEN
        IF place > 0 THEN
            UPDATE stampede_guard.lease_places AS p SET until = now + place * interval '1 second', seconds = place,
                turn = its_turn, called = false
            WHERE p.name = asked AND p.holder = asker;
        END IF;
        SELECT count(*) INTO ahead FROM stampede_guard.lease_places AS p
        WHERE p.name = asked AND p.position < mine.position;
    ELSIF place > 0 THEN
        SELECT count(*) INTO waiting FROM stampede_guard.lease_places AS p WHERE p.name = asked;
        IF waiting < most_waiting THEN
            INSERT INTO stampede_guard.lease_places (name, holder, position, owner, until, seconds, turn)
            VALUES (asked, asker, greatest((extract(epoch FROM now) * 1000000)::bigint, 1 + coalesce((
                SELECT p.position FROM stampede_guard.lease_places AS p WHERE p.name = asked
                ORDER BY p.position DESC LIMIT 1), 0)),
                asker_owner, now + place * interval '1 second', place, its_turn);
            ahead := waiting;
        END IF;
    END IF;

    IF held IS DISTINCT FROM (l.holder <> '') OR missing IS DISTINCT FROM l.missing_since OR stale THEN
        UPDATE stampede_guard.leases AS u SET holder = CASE WHEN held THEN l.holder ELSE '' END,
            deadline = CASE WHEN held THEN l.deadline END, rests_until = l.rests_until,
            asked_to_leave = CASE WHEN held THEN l.asked_to_leave ELSE '' END,
            witness = CASE WHEN held THEN l.witness ELSE '' END, missing_since = CASE WHEN held THEN missing END
        WHERE u.name = asked;
    ELSE
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    token := l.token;
    owner := l.owner;
    IF held THEN
        verdict := 'held';
        till := least(l.deadline, missing + gone_for * interval '1 second');
    ELSIF resting THEN
        verdict := 'resting';
        till := l.rests_until;
    ELSE
        verdict := 'queued';
        PERFORM stampede_guard.leases_call(
            asked, now, least(most_called, CASE WHEN ahead < 0 THEN most_called ELSE ahead END));
        SELECT p.* INTO first FROM stampede_guard.lease_places AS p WHERE p.name = asked ORDER BY p.position LIMIT 1;
        token := l.last;
        owner := first.owner;
        till := first.until;
    END IF;
    remaining := extract(epoch FROM till - now);
END $$;

-- Returns whether the lease was still held; NULL = the name is unknown.
CREATE OR REPLACE FUNCTION stampede_guard.leases_release(
    patience text, released text, releaser text, its_token bigint, at_least_for float8, prefer text, most_called int
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    l stampede_guard.leases%ROWTYPE;
    now timestamptz;
    held boolean;
    matches boolean;
    resting boolean;
    place_left int;
    earliest timestamptz;
BEGIN
    PERFORM set_config('lock_timeout', patience, true);
    SELECT * INTO l FROM stampede_guard.leases WHERE name = released FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    now := clock_timestamp();
    held := l.holder <> '' AND now < l.deadline;
    matches := releaser <> '' AND l.holder = releaser AND its_token IN (0, l.token);
    resting := l.rest > 0 AND now < l.rests_until;
    DELETE FROM stampede_guard.lease_places AS p WHERE p.name = released AND p.holder = releaser;
    GET DIAGNOSTICS place_left = ROW_COUNT;
    PERFORM stampede_guard.leases_lapse(released, now, l.renewed_at > now);
    IF NOT matches THEN
        IF (l.holder <> '' AND NOT held) OR l.deadline > now + l.lease_ttl * interval '1 second' OR l.rests_until <= now
            OR l.rests_until > now + l.rest * interval '1 second'
        THEN
            UPDATE stampede_guard.leases AS u SET holder = CASE WHEN held THEN l.holder ELSE '' END,
                deadline = CASE WHEN held THEN least(l.deadline, now + l.lease_ttl * interval '1 second') END,
                asked_to_leave = CASE WHEN held THEN l.asked_to_leave ELSE '' END,
                witness = CASE WHEN held THEN l.witness ELSE '' END,
                missing_since = CASE WHEN held THEN l.missing_since END,
                rests_until = CASE WHEN resting THEN least(l.rests_until, now + l.rest * interval '1 second') END
            WHERE u.name = released;
        END IF;
        IF NOT held AND NOT resting THEN
            PERFORM stampede_guard.leases_call(released, now, most_called);
            IF place_left > 0 THEN
                PERFORM pg_notify('stampede_guard_leases', released);
            END IF;
        END IF;
        RETURN false;
    END IF;

    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    earliest := l.granted_at + at_least_for * interval '1 second';
    resting := now < earliest;
    UPDATE stampede_guard.leases AS u SET holder = '', deadline = NULL, asked_to_leave = '',
        rest = CASE WHEN resting THEN at_least_for ELSE 0 END,
        rests_until = CASE WHEN resting THEN least(earliest, now + at_least_for * interval '1 second') END,
        witness = '', missing_since = NULL
    WHERE u.name = released;
    IF prefer <> '' THEN
        -- Move them before the first waiter, and keep their order.
        WITH wanted AS (
            SELECT p.holder, row_number() OVER (ORDER BY p.position) - 1 AS number, count(*) OVER () AS of_them
            FROM stampede_guard.lease_places AS p WHERE p.name = released AND prefer IN (
                p.owner->>'process', p.owner->>'pod', p.owner->>'host', p.owner->>'label')
        ), lowest AS (
            SELECT min(p.position) AS position FROM stampede_guard.lease_places AS p WHERE p.name = released
        )
        UPDATE stampede_guard.lease_places AS p SET position = lowest.position - wanted.of_them + wanted.number
        FROM wanted, lowest WHERE p.name = released AND p.holder = wanted.holder;
    END IF;
    IF NOT resting THEN
        PERFORM stampede_guard.leases_call(released, now, most_called);
    END IF;
    PERFORM pg_notify('stampede_guard_leases', released);
    RETURN held;
END $$;

-- Many acquirers give up, one after the other, ordered by name. So two such calls cannot deadlock.
CREATE OR REPLACE FUNCTION stampede_guard.leases_leave(
    patience text, names text[], holders text[], most_called int
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR number IN 1 .. cardinality(names) LOOP
        PERFORM stampede_guard.leases_release(patience, names[number], holders[number], 0, 0, '', most_called);
    END LOOP;
END $$;
