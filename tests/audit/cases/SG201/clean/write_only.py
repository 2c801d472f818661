from app import cache


def refresh():
    latest = fetch_latest()
    cache.set("latest", latest, None)
