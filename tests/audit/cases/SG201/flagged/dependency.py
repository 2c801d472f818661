from fastapi import APIRouter, Depends
from app.stores import get_redis

router = APIRouter()


@router.get("/salaries")
async def salaries(title: str, store=Depends(get_redis), db=Depends(session)):
    key = f"salaries:{title}"
    hit = await store.get(key)
    if hit:
        return hit
    rows = await db.execute(select(title))
    await store.set(key, rows, ex=60)
    return rows
