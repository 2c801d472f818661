DUE = """SELECT id, body, address, created_at, updated_at, attempts, last_error, next_attempt_at, tenant, language,
       priority FROM messages WHERE due <= now() AND sent_at IS NULL ORDER BY due LIMIT 10 FOR UPDATE SKIP LOCKED"""


async def due(limit):
    pool = await get_pool()
    async with pool.acquire() as conn:
        rows = await conn.fetch(DUE, limit)
        return [dict(row) for row in rows]


class Orders:
    async def charge(self, order):
        row = await self.pool.fetchrow("SELECT * FROM orders WHERE id = $1 FOR NO KEY UPDATE", order)
        await self.pool.execute("UPDATE orders SET paid = true WHERE id = $1", row["id"])
