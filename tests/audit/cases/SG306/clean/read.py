import asyncio
import threading

from filelock import FileLock
from redis import Redis
from redis.exceptions import ConnectionError

redis = Redis()
lock = threading.Lock()
slots = threading.Semaphore(4)


def read():
    if not lock.acquire(timeout=5):
        return
    rebuild()


def bound():
    taken = lock.acquire(blocking=False)
    if taken:
        rebuild()


def unbounded():
    lock.acquire()
    lock.acquire(True, -1)
    rebuild()


def asked():
    held = redis.lock("rebuild", timeout=60)
    held.acquire(blocking_timeout=5)
    if held.owned():
        rebuild()


def raises():
    held = FileLock("rebuild")
    held.acquire(timeout=5)
    rebuild()


def limited():
    slots.acquire(timeout=5)
    rebuild()


async def awaited():
    held = asyncio.Lock()
    await asyncio.wait_for(held.acquire(), 5)
    rebuild()


def without_redis():
    try:
        redis.lock("rebuild", timeout=60).acquire()
    except ConnectionError:
        logger.warning("no lock")
    rebuild()


def leaves():
    try:
        lock.acquire()
    except Exception:
        logger.warning("no lock")
        return
    rebuild()


def fetched(cursor):
    cursor.execute("SELECT pg_try_advisory_lock(7)")
    if cursor.fetchone()[0]:
        rebuild()


def scalar(session):
    if session.execute("SELECT pg_try_advisory_xact_lock(7)").scalar():
        rebuild()


def waits(session):
    session.execute("SELECT pg_advisory_xact_lock(7)")
    rebuild()


def passed_on():
    return lock.acquire(timeout=5)
