"""Celery: slots of beat, exclusive tasks, and the stuck locks of others."""
