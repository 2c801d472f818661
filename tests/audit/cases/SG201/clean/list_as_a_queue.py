import redis

client = redis.Redis()


def say(chat, text):
    history = client.lrange(f"chat:{chat}", 0, -1)
    if not history:
        history = [greeting(chat)]
    answer = answered(history, text)
    client.rpush(f"chat:{chat}", answer)
    return answer


def join(room, user):
    if user in client.smembers(f"room:{room}"):
        return False
    client.sadd(f"room:{room}", user)
    return True
