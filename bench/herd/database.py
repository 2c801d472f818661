"""The herd's table, its one expensive query, and how long that query takes alone."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg  # type: ignore[import-untyped]

from bench.herd.postgres import Seed

__all__ = ["AGGREGATE", "MARK", "SEED", "SESSION", "Calibration", "calibrate", "ensure_filled", "percent_for"]

MARK: Final = "/* the herd's aggregate */"
AGGREGATE: Final = f"""
SELECT {MARK}
    category,
    count(*) AS items,
    count(*) FILTER (WHERE quality_score >= 80) AS good,
    round(avg(quality_score::numeric), 2)::float8 AS average
FROM herd_items
WHERE project_id = $1
GROUP BY category
ORDER BY category
"""
SESSION: Final = {"max_parallel_workers_per_gather": "0", "jit": "off"}

_WANTED_SECONDS = 0.45
_CLOSE_ENOUGH = (0.40, 0.50)
_FIRST_PERCENT = 80
_SQL = Path(__file__).with_name("seed.sql").read_text()


@dataclass(frozen=True, slots=True)
class Calibration:
    """The aggregate alone on this machine, in seconds: the fastest of several runs, as others only add."""

    solo_seconds: float
    rows: int
    megabytes: float

    @property
    def is_typical(self) -> bool:
        """Whether the demo's proportions (TTL, load, bursts) suit this query time."""
        return 0.3 <= self.solo_seconds <= 0.7


def percent_for(*, seconds: float, percent: int) -> int:
    """How many items need a score, if `percent` of them make the aggregate take `seconds`.

    To read and group a row costs about half as much as to convert its score.
    """
    whole = seconds / (1 + 2 * percent / 100)
    return min(100, max(0, round(100 * (_WANTED_SECONDS / whole - 1) / 2)))


async def calibrate(connection: asyncpg.Connection, *, runs: int = 5) -> Calibration:
    """Run the aggregate alone, after one run that only warms up."""
    taken = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        await connection.fetch(AGGREGATE, 1)
        taken.append(time.perf_counter() - started)
    rows = await connection.fetchval("SELECT count(*) FROM herd_items")
    size = await connection.fetchval("SELECT pg_table_size('herd_items')")
    return Calibration(min(taken[1:]), rows, size / 1e6)


async def ensure_filled(url: str) -> None:
    """Fill a database that is not ours, unless it has been filled before.

    Raises `RuntimeError` with a remedy if pg_stat_statements is not available there.
    """
    connection = await asyncpg.connect(url, server_settings=SESSION)
    try:
        await _require_statistics(connection)
        if await connection.fetchval("SELECT to_regclass('herd_items')") is None:
            await _fill(connection)
    finally:
        await connection.close()


def _fill_new_server(url: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url, server_settings=SESSION)
        try:
            await _require_statistics(connection)
            await _fill(connection)
            await connection.execute("CHECKPOINT")
        finally:
            await connection.close()

    asyncio.run(run())


async def _require_statistics(connection: asyncpg.Connection) -> None:
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        await connection.fetchval("SELECT count(*) FROM pg_stat_statements")
    except asyncpg.PostgresError as error:
        raise RuntimeError(
            f"the database at DATABASE_URL cannot count its queries ({error}): load pg_stat_statements with "
            "shared_preload_libraries and allow CREATE EXTENSION, or unset DATABASE_URL"
        ) from error


async def _fill(connection: asyncpg.Connection) -> None:
    await _create_table(connection, _FIRST_PERCENT)
    seconds = (await calibrate(connection, runs=5)).solo_seconds
    least, most = _CLOSE_ENOUGH
    if not least <= seconds <= most:
        await _create_table(connection, percent_for(seconds=seconds, percent=_FIRST_PERCENT))


async def _create_table(connection: asyncpg.Connection, percent: int) -> None:
    await connection.execute(_SQL.replace(":scored_percent", str(percent)))
    await connection.execute("VACUUM (FREEZE, ANALYZE) herd_items")


SEED: Final = Seed(text=repr((_SQL, AGGREGATE, _FIRST_PERCENT, _WANTED_SECONDS)), fill=_fill_new_server)
