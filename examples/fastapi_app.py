"""A FastAPI application whose herd is one query. Serve it with several workers:

    uvicorn examples.fastapi_app:app --workers 8

or see it at work without a server:

    python examples/fastapi_app.py

which prints, the first time:

    querying project 7
    20 answers like {'project': 7, 'good': 80}
    no such project: 404 {'detail': 'no project 0'}
    no number: 422
"""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import httpx
from fastapi import FastAPI, HTTPException, Path
from pydantic import BaseModel

from stampede_guard import StampedeGuard

app = FastAPI()
guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="fastapi")
guard.install(app)  # closes with the app; callers that wait too long get a 503 with Retry-After


class Quality(BaseModel):
    project: int
    good: int


@app.get("/quality/{project}")  # the route above, the cache below
@guard.locked_cache(ttl=300, stale_ttl=3600)
async def quality(project: Annotated[int, Path(description="which project")]) -> Quality:
    if project == 0:
        raise HTTPException(404, f"no project {project}")  # every waiting caller gets it, in every worker
    print("querying project", project)
    await asyncio.sleep(0.1)
    return Quality(project=project, good=80)


async def main() -> None:
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as client:
        answers = await asyncio.gather(*[client.get("http://shop/quality/7") for _ in range(20)])
        print(len(answers), "answers like", answers[0].json())
        answer = await client.get("http://shop/quality/0")
        print("no such project:", answer.status_code, answer.json())
        print("no number:", (await client.get("http://shop/quality/seven")).status_code)


if __name__ == "__main__":
    asyncio.run(main())
