from functools import lru_cache


@lru_cache
def account(user_id: int, request: str):
    return load(user_id, request)


def view(request):
    return account(request.user.id, "all")
