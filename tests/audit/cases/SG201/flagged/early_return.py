import json


class Reports:
    def __init__(self, redis):
        self.redis = redis

    async def report(self, project):
        key = f"report:{project}"
        hit = await self.redis.get(key)
        if hit:
            return json.loads(hit)
        made = await build(project)
        await self.redis.setex(key, 300, json.dumps(made))
        return made
