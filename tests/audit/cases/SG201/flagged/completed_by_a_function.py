from app.cache import cache

DEFAULTS = {"name": "Assistant"}


async def settings_of(tenant, db):
    key = f"settings:{tenant}"
    known = await cache.get(key)
    if known:
        return known
    row = await db.fetch_tenant(tenant)
    settings = DEFAULTS.copy()
    deep_merge(settings, row.settings)
    await cache.set(key, settings)
    return settings
