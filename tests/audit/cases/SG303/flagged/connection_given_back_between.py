from shop.database import Database


class Machines:
    def remove(self, machine):
        with self.db.connection() as conn:
            cursor = conn.cursor()
            cursor.execute("SELECT pg_advisory_lock(%s)", (machine,))
        try:
            self.end_sessions(machine)
        finally:
            with self.db.connection() as conn:
                cursor = conn.cursor()
                cursor.execute("SELECT pg_advisory_unlock(%s)", (machine,))
