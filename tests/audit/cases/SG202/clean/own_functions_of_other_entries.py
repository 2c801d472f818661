class Session:
    def _state(self, user):
        return loads(self.redis.get(f"state:{user}"))

    def _keep(self, user, state):
        self.redis.setex(f"state:{user}", 300, dumps(state))

    def _mark(self, user, page):
        self.redis.setex(f"page:{user}", 300, page)

    def step(self, user, move):
        state = self._state(user)
        if state is None:
            state = {}
        state["moves"] = state.get("moves", 0) + 1
        self._keep(user, state)
        return state

    def visit(self, user):
        state = self._state(user)
        if state is None:
            return None
        page = self.pages.query(user)
        self._mark(user, page)
        return page
