"""An outbox for Django: invalidations in the database, in the transaction of the data, so that nothing is lost.

    INSTALLED_APPS = [..., "stampede_guard.integrations.django", "stampede_guard.integrations.django.outbox"]

1. `invalidate_on_commit` writes a row with the tags, in the current transaction and its savepoints. 2. After the
commit, the process invalidates the tags, and deletes the row. 3. If it dies before that, or Redis is away,
`manage.py stampede_guard_outbox` does both: see `integrations.outboxes`. Each row is delivered at least once.

Without a transaction, Django has committed the data before anything can be written beside it. So a row needs
`transaction.atomic` or `ATOMIC_REQUESTS`.
"""
