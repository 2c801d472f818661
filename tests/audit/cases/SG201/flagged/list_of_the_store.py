import redis

client = redis.Redis()


def newest(author):
    found = client.lrange(f"newest:{author}", 0, -1)
    if found:
        return found
    found = [post.pk for post in Post.objects.filter(author=author)]
    client.rpush(f"newest:{author}", *found)
    client.expire(f"newest:{author}", 60)
    return found


def permissions(user):
    key = f"permissions:{user}"
    if client.exists(key):
        return client.smembers(key)
    found = {row.code for row in Permission.objects.filter(user=user)}
    if found:
        client.sadd(key, *found)
    return found
