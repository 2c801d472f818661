from functools import cache, lru_cache

import psycopg
from sqlalchemy import create_engine, select, text

from app.models import Rate, rates_table

engine = create_engine("postgresql://")


@lru_cache
def core(day):
    with engine.connect() as c:
        return c.execute(text("select rate from rates where day = :day"), {"day": day}).all()


@cache
def named():
    query = select(Rate).where(Rate.day == "today")
    with engine.begin() as bound:
        return list(bound.execute(query))


@lru_cache(maxsize=128)
def driver(day):
    with psycopg.connect() as c:
        return c.execute("SELECT rate FROM rates WHERE day = %s", (day,)).fetchone()


@lru_cache
def cursors(day, opened):
    cursor = opened.cursor()
    cursor.execute(RATES, (day,))
    return cursor.fetchall()


@cache
def formatted(table):
    with engine.connect() as c:
        return c.scalar(f"SELECT count(*) FROM {table}")
