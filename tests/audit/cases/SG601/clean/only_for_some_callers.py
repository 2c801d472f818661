from app import cache



def tools(filters, user=None):
    if user is None:
        found = cache.get(f"tools:{filters}")
        if found is not None:
            return found
    rows = load(filters, user)
    if user is None:
        cache.set(f"tools:{filters}", rows, 60)
    return rows
