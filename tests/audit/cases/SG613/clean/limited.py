import time

jwks_cache: dict[str, dict] = {}


async def signing_key(kid, tenant):
    """Looks for the key; fetches the jwks if it is unknown."""
    jwks = await get_jwks(tenant)
    for key in jwks["keys"]:
        if key.get("kid") == kid:
            return key
    if time.monotonic() - fetched[tenant] > 60:
        jwks_cache.pop(tenant, None)
        jwks = await get_jwks(tenant)
    return find(jwks, kid)


def rotate(kid):
    add_key(kid)
    jwks_cache.clear()


def decode(token):
    try:
        return jwt.decode(token, jwk_client.get_signing_key_from_jwt(token).key)
    except jwt.InvalidSignatureError:
        raise Unauthorized() from None


def logout(session):
    session.pop("kid")
    return fetch_page(session)
