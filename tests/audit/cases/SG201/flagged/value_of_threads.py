"""One value of the process, renewed after some time without its cache lock: all threads renew it."""

import time

import requests

_rates, _until = None, 0


def rates():
    global _rates, _until
    if _rates is None or time.time() > _until:
        _rates = requests.get("https://rates.example").json()
        _until = time.time() + 60
    return _rates


def served():
    global _rates, _until
    if _rates is not None and time.time() < _until:
        return _rates
    found = requests.get("https://rates.example").json()
    _rates = found
    _until = time.time() + 60
    return _rates


def only_the_time_decides():
    global _rates, _until
    if time.monotonic() > _until:
        _rates = _asked()
        _until = time.monotonic() + 60
    return _rates


def _asked():
    return requests.get("https://rates.example").json()


class Shop:
    _token = None
    _expires = 0

    def headers(self):
        if not self._token or time.time() >= self._expires:
            response = requests.post("https://shop.example/login")
            self._token = response.json()["token"]
            self._expires = time.time() + 3600
        return {"Authorization": self._token}
