from django.core.cache import cache

from shop import db


class Scores:
    def leader_board(self):
        known = cache.get("leader_board")
        if known is None:
            known = db.execute("select * from scores")
            cache.set("leader_board", known, 60)
        return known


def count_pending():
    count = cache.get("pending")
    if count is None:
        count_pending = db.get_pending_tasks()
        count = len(count_pending)
        cache.set("pending", count, 60)
    return count


def futures():
    found = cache.get("futures")
    if found is None:
        found = db.load_futures()
        cache.set("futures", found, 60)
    return found


def report_locked():
    found = cache.get("report")
    if found is None:
        found = db.execute("report")
        cache.set("report", found, 60)
    return found


def exclusive_offers(function):
    return function


@exclusive_offers
def offers():
    found = cache.get("offers")
    if found is None:
        found = db.execute("offers")
        cache.set("offers", found, 60)
    return found
