from django.core.cache import cache


def groups(member):
    key = f"groups:{member}"
    rows = cache.get(key)
    if rows is not None:
        if not rows:
            return []
        return [group(row) for row in rows]
    found = list(Group.objects.filter(member=member))
    rows = [found_one.as_dict() for found_one in found]
    cache.set(key, rows, 300)
    return found
