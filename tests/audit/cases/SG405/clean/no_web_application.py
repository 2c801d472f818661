class TestOrders:
    def setup(self):
        self.db.execute("DELETE FROM orders")


def prepare(db):
    db.execute("TRUNCATE staging")
