"""What the endpoints ask for: a database, a rate service and a model. Here each only takes its time.

`$AUDITED_APP_LOG` names a file that gains a line for every computation, in whatever process it runs.
"""

from __future__ import annotations

import asyncio
import os

LASTS = 0.45  # seconds, as the query of the incident


async def _compute(what: str) -> int:
    log = os.environ.get("AUDITED_APP_LOG")
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{what}\n")
    await asyncio.sleep(LASTS)
    return 80


class Database:
    async def fetch_val(self, query: str, *values: object) -> int:
        return await _compute(f"{query} {values}")


class Rates:
    async def get_json(self, url: str) -> dict[str, float]:
        return {"EUR": float(await _compute(url))}


class Model:
    async def predict(self, customer: int) -> list[int]:
        return [await _compute(f"predict {customer}")]


db = Database()
rates = Rates()
model = Model()
