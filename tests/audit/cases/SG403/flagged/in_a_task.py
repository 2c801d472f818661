import redis
from celery import shared_task

client = redis.Redis()


@shared_task
def sweep():
    for key in client.keys("session:*"):
        client.delete(key)
