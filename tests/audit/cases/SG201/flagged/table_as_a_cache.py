"""A table is the cache: its row is looked for, and made after a request."""

import requests
from sqlalchemy import select

from shop.models import PageCache, PreviewCache, session


def page(url):
    try:
        return PageCache.objects.get(url=url).text
    except PageCache.DoesNotExist:
        text = requests.get(url).text
        PageCache.objects.create(url=url, text=text)
        return text


def preview(url):
    row = PreviewCache.objects.filter(url=url).first()
    if row:
        return row.html
    html = requests.get(url, params={"preview": 1}).text
    PreviewCache.objects.update_or_create(url=url, defaults={"html": html})
    return html


def known(url):
    row = session.query(PageCache).filter(PageCache.url == url).first()
    if row is not None:
        return row.text
    text = requests.get(url).text
    session.add(PageCache(url=url, text=text))
    session.commit()
    return text


async def awaited(url, client):
    row = (await session.execute(select(PageCache).where(PageCache.url == url))).scalar_one_or_none()
    if row is None:
        text = await client.get(url)
        row = PageCache(url=url, text=text)
        session.add(row)
    return row.text


def of_peewee(url):
    row = PageCache.get_or_none(PageCache.url == url)
    if row is None:
        row = PageCache.create(url=url, text=requests.get(url).text)
    return row.text
