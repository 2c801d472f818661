from shop import db
from shop.cache import load_user, save_user


def user(pk):
    found = load_user(pk)
    if found is None:
        found = db.execute(pk)
        save_user(pk, found)
    return found
