from aiocache import cached
from fastapi import APIRouter

router = APIRouter()


@cached(ttl=30)
@router.put("/note/{note}")
async def change(note: int) -> dict:
    return await notes.change(note)
