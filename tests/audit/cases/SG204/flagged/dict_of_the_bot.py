class Prices:
    def __init__(self, bot):
        self.bot = bot

    async def of_a_day(self, day):
        if day in self.bot.price_cache:
            return self.bot.price_cache[day]
        self.bot.price_cache[day] = await load(day)
        return self.bot.price_cache[day]
