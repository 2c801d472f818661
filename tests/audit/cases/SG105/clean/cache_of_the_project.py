from django.template import Library

from shop.kept import cache

register = Library()


@register.simple_tag
def rating(book):
    return cache.get_or_set(f"rating:{book}", lambda: compute_rating(book), 60)
