from django.core.cache import cache


def board():
    if cache.get("leader_board"):
        return
    cache.set("leader_board", announce(), 60)
