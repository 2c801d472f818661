from app.cache import cache_get, cache_set
from app.models import Report


def _to_detail(row):
    return {"id": row.id, "made": row.made.isoformat()}


class Reports:
    def __init__(self, db):
        self.db = db

    def get_report(self, report_id):
        cache_key = f"reports:{report_id}"
        cached = cache_get(cache_key)
        if cached is not None:
            return cached
        row = self.db.get(Report, report_id)
        detail = _to_detail(row)
        cache_set(cache_key, detail, ttl=300)
        return detail
