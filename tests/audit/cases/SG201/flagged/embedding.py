def vector(cache, model, text):
    known = cache.get(text)
    if known is None:
        known = model.encode(text)
        cache.set(text, known, 3600)
    return known
