async def admin_key(kid, tenant, admin_role):
    jwks = await get_jwks(tenant)
    for key in jwks["keys"]:
        if key.get("kid") == kid and key["issued_at"]:
            return key
    jwks_cache.pop(tenant, None)
    jwks = await get_jwks(tenant)
    for key in jwks["keys"]:
        if key.get("kid") == kid:
            return key
    raise InvalidToken("Unknown key after the refresh")
