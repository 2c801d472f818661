import pickle

import redis

client = redis.Redis()


def rows_of(key, query):
    kept = client.get(key)
    if kept is None:
        client.set(key, (kept := pickle.dumps(query.all())), ex=60)
    return pickle.loads(kept)
