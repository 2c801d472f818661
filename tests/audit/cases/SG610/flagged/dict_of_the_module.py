_price_cache = {}


def clear_price_cache():
    _price_cache.clear()


def price(name):
    if name not in _price_cache:
        _price_cache[name] = Price.objects.get(name=name).value
    return _price_cache[name]


def change(name, value):
    Price.objects.filter(name=name).update(value=value)
    _price_cache.pop(name, None)


@router.post("/prices/clear")
def cleared():
    clear_price_cache()
