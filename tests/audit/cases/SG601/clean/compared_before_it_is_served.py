import json
import os

_INDEX_CACHE = {}


def index(name):
    changed = os.path.getmtime(name)
    kept = _INDEX_CACHE.get("name")
    found = _INDEX_CACHE.get("data")
    if kept == name and _INDEX_CACHE.get("changed") == changed and found is not None:
        return found
    with open(name) as file:
        data = json.load(file)
    _INDEX_CACHE["name"] = name
    _INDEX_CACHE["changed"] = changed
    _INDEX_CACHE["data"] = data
    return data
