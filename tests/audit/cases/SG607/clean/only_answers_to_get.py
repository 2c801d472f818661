from fastapi import APIRouter
from fastapi_cache.decorator import cache

router = APIRouter()


@router.delete("/note/{note}")
@cache(expire=30)
async def remove(note: int) -> None:
    await notes.delete(note)
