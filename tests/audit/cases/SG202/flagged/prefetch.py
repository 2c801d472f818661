def prefetch(user):
    if get_from_cache("profile", user):
        return
    answer = Controller().profile(user)
    set_in_cache("profile", user, answer)
