class Posts:
    def __init__(self):
        self._hash_cache = {}

    async def post(self, options):
        if options in self._hash_cache:
            return self._hash_cache[options]
        digest = hash(options)
        await self.send(digest)
        self._hash_cache[options] = digest
        return digest
