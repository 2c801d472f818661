from django.core.cache import cache

from shop import api


def ingest(url, name, changeset=None, last_push=None):
    key = f"{name}:last_push"
    if not last_push:
        last_push = cache.get(key)

    if not changeset and last_push:
        found = api.extract(f"{url}&startID={last_push}")
        if found["lastpush"] < last_push:
            cache.delete(key)
            found = api.extract(url)
    else:
        if changeset:
            found = api.extract(f"{url}&changeset={changeset}")
        else:
            found = api.extract(url)
    pushes = found["pushes"]
    if not pushes:
        return None
    last_push = max(map(int, pushes.keys()))
    if not changeset:
        cache.set(key, last_push, 3600)
    return pushes[str(last_push)]
