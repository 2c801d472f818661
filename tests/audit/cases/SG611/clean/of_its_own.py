import click
import redis

client = redis.Redis()
seen = {}


def forget():
    seen.clear()


class Client:
    def flushdb(self):
        return self.client.flushdb()


@click.command()
def reset():
    client.flushdb()


def teardown_store():
    client.flushdb()


def entries(cache):
    cache.clear()


if __name__ == "__main__":
    client.flushall()
