import logging
import time

from django.core.cache import cache


def task(lock_id):
    started = time.monotonic()
    if not cache.add(lock_id, "1", 600):
        return
    try:
        work()
    finally:
        if time.monotonic() > started + 60:
            logging.warning("slow")
        cache.delete(lock_id)


def freed_when_it_is_late(lock_id):
    deadline = time.monotonic() + 600
    if not cache.add(lock_id, "1", 600):
        return
    work()
    if time.monotonic() > deadline:
        cache.delete(lock_id)


def freed_up_to_its_end(lock_id):
    """The deletion may arrive after the end."""
    deadline = time.monotonic() + 600
    if not cache.add(lock_id, "1", 600):
        return
    work()
    if time.monotonic() < deadline:
        cache.delete(lock_id)
