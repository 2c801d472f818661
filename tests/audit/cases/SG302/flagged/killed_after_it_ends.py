from celery import shared_task
from django.core.cache import cache


@shared_task(bind=True, time_limit=900, soft_time_limit=840)
def analyse(self):
    if not cache.add("lock:analyse", "1", 60):
        return None
    try:
        return work()
    finally:
        cache.delete("lock:analyse")
