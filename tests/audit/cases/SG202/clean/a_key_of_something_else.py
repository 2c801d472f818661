from app import db


def renamed(key, name):
    row = db.get_row(key)
    if row is None:
        return None
    row.name = name
    db.redis_conn.set(key, row.dumped())
    return row


def copied(api_key, redis):
    owner = load_owner(api_key)
    if owner:
        redis.set(api_key, owner.name, ex=60)
    return owner
