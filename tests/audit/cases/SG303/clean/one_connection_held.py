async def main(pool):
    instance_lock_conn = None
    try:
        instance_lock_conn = await pool.acquire()
        await instance_lock_conn.execute("SELECT pg_advisory_lock($1)", NUMBER)
        await serve()
    finally:
        await instance_lock_conn.execute("SELECT pg_advisory_unlock($1)", NUMBER)
        await pool.release(instance_lock_conn)


class Guard:
    def take(self):
        self._connection = self.open_connection()
        cursor = self._connection.cursor()
        cursor.execute("SELECT pg_try_advisory_lock(%s)", (self.number,))
        return cursor.fetchone()[0]

    def free(self):
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", (self.number,))
        self._connection.close()


def held(engine, number):
    with engine.connect() as conn:
        cursor = conn.cursor()
        cursor.execute("SELECT pg_advisory_lock(%s)", (number,))
        try:
            work()
        finally:
            free = conn.cursor()
            free.execute("SELECT pg_advisory_unlock(%s)", (number,))
