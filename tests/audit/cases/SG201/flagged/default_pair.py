from django.core.cache import cache


def page(slug):
    html, headers = cache.get(slug, (None, None))
    if html is not None:
        return respond(html, headers)
    response = render(slug)
    cache.set(slug, (response.content, response.headers))
    return response
