import pymemcache

mc = pymemcache.Client("localhost")


def page(slug):
    html = mc.get(slug)
    if html is None:
        html = render(slug)
        mc.set(slug, html, expire=60)
    return html
