def may_enter(user):
    if cache.get(f"may-enter:{user.id}"):
        return True
    if not query_rights(user):
        return False
    cache.set(f"may-enter:{user.id}", True, 300)
    log(user)
    return True


def rights_changed(user):
    cache.delete(f"may-enter:{user.id}")
