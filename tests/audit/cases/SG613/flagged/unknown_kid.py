jwks_cache: dict[str, dict] = {}


async def signing_key(kid, tenant):
    jwks = await get_jwks(tenant)
    for key in jwks["keys"]:
        if key.get("kid") == kid:
            return key
    jwks_cache.pop(tenant, None)
    jwks = await get_jwks(tenant)
    for key in jwks["keys"]:
        if key.get("kid") == kid:
            return key
    raise InvalidToken("Unknown key after the refresh")


class Verifier:
    def decode(self, token, again=False):
        try:
            return jwt.decode(token, self.jwk_client.get_signing_key_from_jwt(token).key)
        except jwt.InvalidSignatureError:
            if again:
                raise
            self.jwk_client.clear_cache()
            return self.decode(token, True)

    def key(self, token):
        kid = jwt.get_unverified_header(token)["kid"]
        keys = self.get_jwks()
        if kid not in keys:
            keys = self.get_jwks(force_refresh=True)
        return keys[kid]
