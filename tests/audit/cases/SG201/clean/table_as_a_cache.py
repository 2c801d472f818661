"""Rows that are no fill: given by the caller, of another url, of a table of something else, under a lock."""

import requests
from redis import Redis

from shop.models import CacheSettings, Page, PageCache

client = Redis()


def keep(url, text):
    row = PageCache.objects.filter(url=url).first()
    if row is None:
        row = PageCache.objects.create(url=url, text=text)
    return row


def another(url, other):
    row = PageCache.objects.filter(url=url).first()
    if row is None:
        PageCache.objects.create(url=other, text=requests.get(other).text)
    return row


def settings(name):
    row = CacheSettings.objects.filter(name=name).first()
    if row is None:
        row = CacheSettings.objects.create(name=name, seconds=60)
    return row


def page(url):
    row = Page.objects.filter(url=url).first()
    if row is None:
        row = Page.objects.create(url=url, text=requests.get(url).text)
    return row


def under_a_lock(url):
    with client.lock(f"page:{url}"):
        row = PageCache.objects.filter(url=url).first()
        if row is None:
            row = PageCache.objects.create(url=url, text=requests.get(url).text)
        return row


def other_rows(db, url, day):
    text = db.fetch_val("SELECT text FROM page_cache WHERE url = :url", {"url": url})
    if text is None:
        text = requests.get(url).text
        db.execute("INSERT INTO text_cache (day, text) VALUES (:day, :text)", {"day": day, "text": text})
    return text
