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
