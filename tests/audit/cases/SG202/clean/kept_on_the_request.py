def _get_cached_filter(request, user):
    state = getattr(request, "state", None)
    kept = getattr(state, "_filter", None)
    return kept[1] if kept and kept[0] is user else None


def _cache_filter(request, user, found):
    state = getattr(request, "state", None)
    setattr(state, "_filter", (user, found))
    return found


def filter_of(request, user):
    known = _get_cached_filter(request, user)
    if known is not None:
        return known
    return _cache_filter(request, user, load_filter(user))
