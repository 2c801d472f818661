from shop.models import database


def nightly():
    return database.execute_sql("select pg_try_advisory_lock(42)").fetchone()
