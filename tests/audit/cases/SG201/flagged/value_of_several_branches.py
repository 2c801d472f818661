import json

from app import redis_client, session


def load(key):
    raw = redis_client.get(key)
    if raw:
        return json.loads(raw)
    row = session.query(Row).filter_by(key=key).first()
    if row.value is not None:
        value = row.value
    else:
        value = None
    redis_client.set(key, json.dumps(value))
    return value
