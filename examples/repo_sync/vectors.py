"""A vector store of a few tables in PostgreSQL: small, shared by all pods, and it refuses who comes too late.

Of a store of your own it wants two things, which Qdrant, Weaviate or pgvector give as well: a point's id is chosen by
the writer, and the same id again is the same point.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import Any

from examples.repo_sync.chunks import chunks, embedded, likeness

__all__ = ["SCHEMA", "Point", "Vectors", "points_of"]

SCHEMA = """\
CREATE TABLE IF NOT EXISTS points (
    id uuid PRIMARY KEY, repository text NOT NULL, path text NOT NULL, chunk int NOT NULL,
    digest text NOT NULL, vector real[] NOT NULL, run text NOT NULL, token bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS synchronised (repository text PRIMARY KEY, commit text NOT NULL, token bigint NOT NULL);
"""
_NAMES = uuid.UUID("6f0d1a52-6f0b-4a57-9a52-0c2c5a9d9a10")
_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Point:
    """A chunk of a file. Its id follows from where it is, so that to write it again changes nothing."""

    repository: str
    path: str
    chunk: int
    text: str

    @property
    def id(self) -> uuid.UUID:
        return uuid.uuid5(_NAMES, f"{self.repository}/{self.path}#{self.chunk}")

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def points_of(repository: str, path: str, text: str) -> list[Point]:
    return [Point(repository, path, number, part) for number, part in enumerate(chunks(text))]


class Vectors:
    """`run` and `token` are those of the job's run: what a later run has written, an earlier one cannot overwrite."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def put(self, point: Point, *, run: str, token: int) -> None:
        await self._pool.execute(
            "INSERT INTO points VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO UPDATE SET "
            "digest = excluded.digest, vector = excluded.vector, run = excluded.run, token = excluded.token "
            "WHERE points.token <= excluded.token",
            *(point.id, point.repository, point.path, point.chunk),
            *(point.digest, embedded(point.text), run, token),
            timeout=_TIMEOUT,
        )

    async def cut(self, repository: str, path: str, *, chunks: int, token: int) -> None:
        """A file has only so many chunks by now; none if it was deleted."""
        await self._pool.execute(
            "DELETE FROM points WHERE repository = $1 AND path = $2 AND chunk >= $3 AND token <= $4",
            *(repository, path, chunks, token),
            timeout=_TIMEOUT,
        )

    async def commit_of(self, repository: str) -> str | None:
        """Up to which commit everything is in the store."""
        return await self._pool.fetchval(  # type: ignore[no-any-return]
            "SELECT commit FROM synchronised WHERE repository = $1", repository, timeout=_TIMEOUT
        )

    async def synchronised(self, repository: str, commit: str, *, token: int) -> None:
        await self._pool.execute(
            "INSERT INTO synchronised VALUES ($1, $2, $3) ON CONFLICT (repository) DO UPDATE SET "
            "commit = excluded.commit, token = excluded.token WHERE synchronised.token <= excluded.token",
            *(repository, commit, token),
            timeout=_TIMEOUT,
        )

    async def contents(self) -> list[tuple[str, str, int, str]]:
        """Repository, path, number and digest of every point."""
        rows = await self._pool.fetch("SELECT repository, path, chunk, digest FROM points", timeout=_TIMEOUT)
        return [tuple(row) for row in rows]

    async def written_by(self, run: str) -> int:
        return await self._pool.fetchval(  # type: ignore[no-any-return]
            "SELECT count(*) FROM points WHERE run = $1", run, timeout=_TIMEOUT
        )

    async def nearest(self, question: str) -> str:
        """The file with the chunk that is most like it."""
        rows = await self._pool.fetch("SELECT repository, path, vector FROM points", timeout=_TIMEOUT)
        asked = embedded(question)
        best = max(rows, key=lambda row: likeness(asked, row["vector"]))
        return f"{best['repository']}/{best['path']}"
