"""The fence in the user's own transaction: what it writes is committed only if the lease was still held at the end.

`SELECT ... FOR SHARE` of the lease's row, as the transaction's last statement before COMMIT. If it finds the row held
under this holder and token, nobody can change the row before the transaction ends: not another acquirer, not an
operator, not even the holder's own renewal. So nothing is committed by somebody whose lease has gone to another.

Between the two nothing slow should happen: renewals wait as well. Who stands still there would block the lease for as
long, so the server is told to end his transaction, and its session, when the lease ends
(`idle_in_transaction_session_timeout`, for this transaction alone, and never longer than it was). A transaction at
REPEATABLE READ or SERIALIZABLE sees the row as it was at its beginning, and PostgreSQL ends it with a serialization
failure if the row was renewed since; use READ COMMITTED, the default.
"""

from __future__ import annotations

from typing import Any

from stampede_guard.leases.postgres.foreign import in_transaction

__all__ = ["verify"]

_SQL = """
WITH held AS MATERIALIZED (
    SELECT deadline FROM {schema}.leases
    WHERE name = $1 AND holder = $2 AND token = $3 AND holder <> '' AND clock_timestamp() < deadline FOR SHARE
)
SELECT set_config('idle_in_transaction_session_timeout', least(
        greatest(1, ceil(extract(epoch FROM deadline - clock_timestamp()) * 1000))::bigint,
        nullif(setting::bigint, 0),
        max_val::bigint
    )::text, true)
FROM held, pg_settings
WHERE pg_settings.name = 'idle_in_transaction_session_timeout' AND clock_timestamp() < deadline"""


async def verify(conn: Any, schema: str, name: str, *, holder: str, token: int) -> bool:
    """`conn` and what is raised: see `leases.postgres.foreign`."""
    return await in_transaction(conn, _SQL.format(schema=schema), name, holder, token) is not None
