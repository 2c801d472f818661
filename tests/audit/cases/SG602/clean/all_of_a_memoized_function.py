from app import cache


@cache.memoize(900)
def feed(user, sort="hot", limit=20):
    return load(user, sort, limit)


@cache.memoize(900)
def friends(user):
    return load(user)


@app.route("/")
def front(user, sort):
    return render(feed(user, sort), friends(user))


def block(user, sort):
    cache.delete_memoized(feed)
    cache.delete_memoized(feed, user, sort)
    cache.delete_memoized(feed, user, sort=sort)
    cache.delete_memoized(friends, user)
    cache.delete_memoized(elsewhere, user)
