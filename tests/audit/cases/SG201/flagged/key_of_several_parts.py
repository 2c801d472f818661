from app.stores import permission_cache


async def grants(tenant, user, company):
    known = permission_cache.get(tenant, user, company)
    if known is not None:
        return known
    found = await load_grants(tenant, user)
    permission_cache.set(tenant, user, found, company_id=company)
    return found
