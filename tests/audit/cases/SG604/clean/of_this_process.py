from functools import cache, lru_cache

from app.models import Template


@cache
def settings():
    return Settings()


@lru_cache
def pattern(text):
    return compile_pattern(text)


@lru_cache
def template(kind):
    return Template.objects.get(kind=kind).content


def changed():
    template.cache_clear()
