from app import cache


def menu():
    found = cache.get("menu") or build_menu()
    cache.set("menu", found, 60)
    return found
