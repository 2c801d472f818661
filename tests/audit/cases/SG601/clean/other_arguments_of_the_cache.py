from app import cache



def agents(tenant, filters):
    found = cache.get("agents", version=tenant, group=filters)
    if found is None:
        found = load(tenant, filters)
        cache.set("agents", found, version=tenant, group=filters)
    return found
