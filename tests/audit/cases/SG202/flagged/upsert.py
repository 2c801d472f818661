from shop.caching import load_genre_cache, upsert_genre_cache


async def genre(session, name):
    cached = await load_genre_cache(session, name)
    if len(cached) >= 20:
        return cached
    films = await ask_pages(name)
    await upsert_genre_cache(session, name, films)
    return films
