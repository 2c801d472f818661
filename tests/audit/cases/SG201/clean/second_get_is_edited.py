def append_event(cache, key, event):
    try:
        known = cache.get_json(key)
        number = known[-1]["id"] + 1 if known else 1
    except KeyError:
        number = next_number(key)
    if known is None:
        note(key)
    events = cache.get_json(key)
    events.append({"id": number, "event": event})
    cache.set_json(key, events, ttl=60)
