from django.core.cache import cache

PERIOD = 3600


def recalculate(name):
    started_key = key_of(name)
    is_started = cache.get(started_key)
    if is_started:
        return
    cache.set(started_key, True, timeout=PERIOD)
    for shop in shops():
        calculate.delay(shop)


def synchronize(shop):
    key = f"synchronized-by-request:{shop.id}"
    if not cache.get(key):
        log.info("start")
        client = Client(shop.url)
        cache.set(key, True, PERIOD)
        users(client, shop)


def tell(shop):
    key = f"told:{shop.id}"
    if cache.get(key):
        log.debug("told a moment ago")
        return
    else:
        cache.set(key, True, 900)
        chat.post(shop)


def warn(team):
    key = f"warned:{team}"
    if cache.get(key) is None:
        warn_team.delay(team)
        cache.set(key, True, 900)
