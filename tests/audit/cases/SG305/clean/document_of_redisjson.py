"""A cache of documents in RedisJSON."""
import redis
from fastapi import APIRouter
r = redis.Redis()
router = APIRouter()

@router.get("/doc/{k}")
def doc(k: str):
    v = r.json().get("doc:" + k)
    if v is None:
        v = session.query(Big).filter_by(k=k).one().as_dict()
        r.json().set("doc:" + k, "$", v)
        r.expire("doc:" + k, 60)
    return v
