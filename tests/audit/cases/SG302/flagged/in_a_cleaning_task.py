from django.core.cache import cache

LOCK = "clean-sessions-lock"


def clean_sessions():
    if cache.add(LOCK, "1", 300):
        try:
            delete_expired()
        finally:
            cache.delete(LOCK)
