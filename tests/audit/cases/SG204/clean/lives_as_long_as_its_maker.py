class Strengths:
    def __init__(self, engine, cache):
        self._engine = engine
        self._cache = cache

    async def of_a_team(self, team):
        if team in self._engine.team_cache:
            return self._engine.team_cache[team]
        self._engine.team_cache[team] = await load_team(team)
        return self._engine.team_cache[team]

    async def of_a_game(self, game):
        if game in self._cache:
            return self._cache[game]
        self._cache[game] = await load_game(game)
        return self._cache[game]


class Stage:
    def __init__(self):
        self.remote_cache = {}

    async def run(self):
        async for item in self.items():
            if item.remote not in self.remote_cache:
                self.remote_cache[item.remote] = await load_remote(item.remote)
            await self.put(item, self.remote_cache[item.remote])
