from shop import redis_client


def consume_from_last():
    last = redis_client.get("stream:last")
    if last is None:
        last = "0-0"
    consume(last)


def consume(last="0-0"):
    messages = redis_client.xread({"stream": last})
    redis_client.set("stream:last", show(messages))
