import time
from contextlib import contextmanager

from django.core.cache import cache

LIFETIME = 600


@contextmanager
def task_lock(lock_id, owner):
    timeout_at = time.monotonic() + LIFETIME - 3
    status = cache.add(lock_id, owner, LIFETIME)
    try:
        yield status
    finally:
        if time.monotonic() < timeout_at and status:
            cache.delete(lock_id)


@contextmanager
def another_lock(lock_id, owner):
    timeout_at = time.monotonic() + LIFETIME - 3
    status = cache.add(lock_id, owner, LIFETIME)
    try:
        yield status
    finally:
        in_time = time.monotonic() < timeout_at
        if status and in_time:
            cache.delete(lock_id)
