import orjson

from app import db


def popular(days):
    redis_key = f"popular:{days}"
    if known := db.get_json_key(redis_key):
        return known
    found = stats_of(days)
    db.redis_conn.set(redis_key, orjson.dumps(found), ex=3600)
    return found
