from shop import db
from shop.stores import get_user_cache, get_report_cache


def user(pk):
    store = get_user_cache(pk)
    if store is None:
        return db.execute(pk)
    store.delete(pk)
    made = db.execute(pk)
    store.set_cache_entry(pk, made)
    return made
