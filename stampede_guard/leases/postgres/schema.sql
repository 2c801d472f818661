-- Tables of stampede_guard's leases. May be run again at any time: what exists stays as it is.
-- In another schema: replace the word stampede_guard where it stands before a point, and in the first statement.

CREATE SCHEMA IF NOT EXISTS stampede_guard;

-- One row a name. A row that is not held is kept for its last token; `holder` = '' or a past `deadline`: not held.
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
    -- Who waits, in order: [{"holder", "owner", "until" (seconds since 1970), "seconds"}].
    queue jsonb NOT NULL DEFAULT '[]'
) WITH (fillfactor = 50);

-- What operators did; the newest thousand.
CREATE TABLE IF NOT EXISTS stampede_guard.lease_audits (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    token bigint NOT NULL,
    by_whom text NOT NULL,
    at timestamptz NOT NULL,
    overrode boolean NOT NULL,
    owner jsonb NOT NULL
);

-- One row a job: its schedule, and what came of it last. Slots are milliseconds since 1970, in UTC.
CREATE TABLE IF NOT EXISTS stampede_guard.jobs (
    name text PRIMARY KEY,
    schedule text NOT NULL,
    fingerprint text NOT NULL,
    rhythm double precision NOT NULL,
    version bigint NOT NULL,
    registered_at timestamptz NOT NULL,
    scheduled_at timestamptz NOT NULL,
    -- When somebody who follows this schedule last said so, and for how many seconds that is good; 0 = for ever.
    seen_at timestamptz NOT NULL,
    seen_for double precision NOT NULL DEFAULT 0,
    pruned_to bigint NOT NULL DEFAULT 0,
    last_slot bigint NOT NULL DEFAULT 0,
    last_success_at timestamptz,
    last_success_began timestamptz,
    last_failure_at timestamptz,
    last_error text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);

-- One row a slot: running, or with its one outcome. `outcome` = '': about to be claimed, as good as no row.
CREATE TABLE IF NOT EXISTS stampede_guard.runs (
    job text NOT NULL,
    slot bigint NOT NULL,
    run text NOT NULL DEFAULT '',
    outcome text NOT NULL DEFAULT ''
        CHECK (outcome IN ('', 'running', 'completed', 'failed', 'missed', 'skipped', 'abandoned')),
    -- Which attempt this is, and how many there may be in all.
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
