def authenticate(user, password):
    if user is None:
        from functools import lru_cache

        @lru_cache(maxsize=1)
        def dummy_hash():
            return hash_password("nobody")

        verify(password, dummy_hash())
    return user
