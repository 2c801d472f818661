from app import cache


@cache.memoize(900)
def feed(user=None, sort="hot", page=1, **more):
    return load(user, sort, page)


@app.route("/")
def front(user, sort, page):
    return render(feed(user=user, sort=sort, page=page))


@app.route("/block/<int:other>", methods=["POST"])
def block(user, other):
    cache.delete_memoized(feed, user=user)


@app.route("/join/<int:board>", methods=["POST"])
def join(user, board):
    cache.delete_memoized(feed, user, "hot", 1, kind="board")
