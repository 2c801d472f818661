from edx_django_utils.cache import RequestCache

from shop import Slug


def active_slug(course):
    slug_cache = RequestCache("slugs")
    cached = slug_cache.get_cached_response(course.pk)
    if cached.is_found:
        return cached.value
    slug = Slug.objects.filter(course=course).first()
    slug_cache.set(course.pk, slug)
    return slug
