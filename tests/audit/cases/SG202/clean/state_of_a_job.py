class Transcription:
    def _operation(self, user):
        return self.redis.get(f"operation:{user}")

    def _remember(self, user, name):
        self.redis.setex(f"operation:{user}", 300, name)

    def step(self, user, audio):
        operation = self._operation(user)
        if operation is None:
            operation = self.service.start(audio)
            self._remember(user, operation)
        done = self.service.look_at(operation)
        return {"status": "done" if done else "waiting"}
