from functools import cache, lru_cache

from fastapi import Request
from sqlalchemy.orm import Session


@cache
def account(request):
    return request.user.accounts.first()


@lru_cache(maxsize=10)
def orders(db: Session, day: str):
    return db.query(Order).filter_by(day=day).all()


@app.get("/pages")
@lru_cache()
def pages(asked: Request):
    return load(asked.url)
