from shop import db


def _get_cached_user(request, user):
    return getattr(request.state, "user", None)


def _cache_user(request, user, value):
    request.state.user = value


def user(request, user):
    found = _get_cached_user(request, user)
    if found is None:
        found = db.execute(user)
        _cache_user(request, user, found)
    return found
