from aiocache import cached
from fastapi import APIRouter

router = APIRouter()


@router.put("/note/{note}")
@cached(ttl=30)
async def change(note: int, text: str) -> dict:
    return await notes.change(note, text)
