from app import cache



def field(group, last_alert):
    created = last_alert.created_at
    found = cache.get(f"field:{group.id}")
    if found is not None and found["at"] > created:
        return found
    found = render(group, last_alert)
    cache.set(f"field:{group.id}", found, 60)
    return found
