"""A table is the cache, and the queries are texts."""

import requests


async def in_sql(db, url):
    text = await db.fetch_val("SELECT text FROM page_cache WHERE url = :url", {"url": url})
    if text is not None:
        return text
    text = requests.get(url).text
    await db.execute("INSERT INTO page_cache (url, text) VALUES (:url, :text)", {"url": url, "text": text})
    return text


def in_sql_by_place(connection, url):
    row = connection.execute("SELECT text FROM page_cache WHERE url = ?", (url,)).fetchone()
    if row:
        return row[0]
    text = requests.get(url).text
    connection.execute("INSERT OR REPLACE INTO page_cache VALUES (?, ?)", (url, text))
    return text
