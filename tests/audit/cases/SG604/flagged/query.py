from functools import lru_cache

import requests

from app.models import Template


@lru_cache()
def template(kind):
    return Template.objects.get(kind=kind).content


@lru_cache(maxsize=None)
def rates(day):
    return requests.get(f"https://rates/{day}").json()
