"""Values of the process that are no cache, are under a lock, or cost nothing."""

import threading
import time

import requests

_lock = threading.Lock()
_rates, _until = None, 0


def under_the_lock():
    global _rates, _until
    with _lock:
        if _rates is None or time.time() > _until:
            _rates = requests.get("https://rates.example").json()
            _until = time.time() + 60
        return _rates


def second_look():
    global _rates, _until
    if _rates is None or time.time() > _until:
        with _lock:
            if _rates is None or time.time() > _until:
                _rates = requests.get("https://rates.example").json()
                _until = time.time() + 60
    return _rates


def without_io(words):
    global _rates, _until
    if _rates is None or time.time() > _until:
        _rates = sorted(words)
        _until = time.time() + 60
    return _rates


def once_for_ever():
    global _rates
    if _rates is None:
        _rates = requests.get("https://rates.example").json()
    return _rates


class Beat:
    """It sends something now and then, and serves nothing from its cache."""

    _last = 0

    def beat(self):
        if time.time() - self._last > 60:
            self._answer = requests.post("https://alive.example")
            self._last = time.time()


class Job:
    def __init__(self, request):
        self._rates, self._until = None, 0

    def rates(self):
        if self._rates is None or time.time() > self._until:
            self._rates = requests.get("https://rates.example").json()
            self._until = time.time() + 60
        return self._rates
