from shop.cache import auth_cache


def is_member(db, who, teams):
    known = auth_cache.get_membership(who, teams)
    if known is not None:
        return known
    rows = set(db.execute("SELECT team FROM members WHERE who = %s", who).scalars().all())
    missing = set(teams) - rows
    if missing:
        auth_cache.set_membership(who, teams, False)
        return False
    auth_cache.set_membership(who, teams, True)
    return True
