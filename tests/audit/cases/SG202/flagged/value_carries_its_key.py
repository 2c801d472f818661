class Policies:
    async def match(self, tenant, subject):
        known = await self.cache.get_match(tenant=tenant, subject=subject)
        if known is not None:
            return known
        found = await self.backend.find(tenant, subject)
        await self.cache.set_match(found)
        return found
