from shop import store


def _cached_videos(pk):
    found = store.hgetall(f"video/{pk}")
    if found:
        found["seconds"] = float(found["seconds"])
    return found


def _cache_videos(pk, videos):
    store.hset(f"video/{pk}", mapping=videos)


def videos_of(pk):
    videos = _cached_videos(pk)
    if not videos:
        videos = load_videos(pk)
        _cache_videos(pk, videos)
    return videos


class Members:
    def __init__(self, cache):
        self.cache = cache

    def of(self, team):
        members = self.cache.hgetall(team)
        if not members:
            members = list_members(team)
            self.cache.hset(team, mapping=members)
        return members
