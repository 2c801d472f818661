import requests
from django.core.cache import cache


def set_translation_service_cache_key(key, value):
    cache.set(key, value, 3600)


def translated(text):
    key = f"translation:{text}"
    known = cache.get(key)
    if known is not None:
        return known
    answer = requests.post("https://translate.example/v2", data=text).json()["text"]
    set_translation_service_cache_key(key, answer)
    return answer
