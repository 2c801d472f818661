from dogpile.cache import make_region
from dogpile.cache.api import NO_VALUE, NoValue
from fastapi import APIRouter
region = make_region().configure("dogpile.cache.redis", expiration_time=60)
router = APIRouter()

@router.get("/a/{day}")
def a(day: str):
    v = region.get(f"day:{day}")
    if v is NO_VALUE:
        v = session.query(Big).filter_by(day=day).all()
        region.set(f"day:{day}", v)
    return v

@router.get("/b/{day}")
def b(day: str):
    v = region.get(f"day:{day}")
    if not v:
        v = session.query(Big).filter_by(day=day).all()
        region.set(f"day:{day}", v)
    return v

@router.get("/c/{day}")
def c(day: str):
    v = region.get(f"day:{day}")
    if v == NO_VALUE:
        v = session.query(Big).filter_by(day=day).all()
        region.set(f"day:{day}", v)
    return v

@router.get("/d/{day}")
def d(day: str):
    v = region.get(f"day:{day}")
    if isinstance(v, NoValue):
        v = session.query(Big).filter_by(day=day).all()
        region.set(f"day:{day}", v)
    return v
