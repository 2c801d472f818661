import threading

import requests

_cache_lock = threading.Lock()
_rows_cache = {}


def _ask(path):
    return requests.get(f"https://api.example.test/{path}", timeout=5).json()


def rows(project):
    with _cache_lock:
        if project in _rows_cache:
            return _rows_cache[project]
    found = _ask(f"rows/{project}")
    with _cache_lock:
        _rows_cache[project] = found
    return found
