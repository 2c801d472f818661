import threading

from redis import Redis
from sqlalchemy import text

redis = Redis()
lock = threading.Lock()


def dropped():
    lock.acquire(timeout=5)
    try:
        rebuild()
    finally:
        lock.release()


def of_redis():
    held = redis.lock("rebuild", timeout=60, blocking_timeout=5)
    held.acquire()
    rebuild()
    held.release()


def only_for_the_release():
    held = redis.lock("rebuild", timeout=60)
    taken = held.acquire(blocking=False)
    try:
        rebuild()
    finally:
        if taken:
            held.release()


def in_sql(session):
    session.execute(text("SELECT pg_try_advisory_xact_lock(7)"))
    rebuild()


def in_mysql(cursor):
    cursor.execute("SELECT GET_LOCK('rebuild', 10)")
    rebuild()
