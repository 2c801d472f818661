from django.core.cache import cache

from app.models import Payment


class Dashboard:
    def __init__(self, company):
        self.company = company

    def paid(self):
        found = cache.get("dashboard:paid")
        if found is None:
            found = Payment.objects.filter(company=self.company).count()
            cache.set("dashboard:paid", found, 300)
        return found
