class Rates:
    def _known(self, day):
        raw = self.redis.get(f"rates:{day}")
        return loads(raw) if raw else None

    def _keep(self, day, rates):
        self.redis.setex(f"rates:{day}", 300, dumps(rates))

    def rates(self, day):
        rates = self._known(day)
        if rates is None:
            rates = self.bank.query(day)
            self._keep(day, rates)
        return rates
