"""The class of the dict says that its entries end, whatever the dict is called."""

import requests
from cachetools import TTLCache

_cache = TTLCache(100, 60)


def rates(day):
    try:
        return _cache[day]
    except KeyError:
        pass
    found = requests.get(f"https://rates.example/{day}").json()
    _cache[day] = found
    return found


class Rates:
    def __init__(self):
        self.cache = TTLCache(100, 60)

    def of(self, day):
        if day not in self.cache:
            self.cache[day] = requests.get(f"https://rates.example/{day}").json()
        return self.cache[day]
