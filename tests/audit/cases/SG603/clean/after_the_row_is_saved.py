from django.core.cache import cache


def rename(page, title):
    page.title = title
    page.save()
    cache.delete(f"page:{page.id}")


def twice(page):
    cache.delete(f"page:{page.id}")
    page.save()
    cache.delete(f"page:{page.id}")


def another(page, visit):
    """The saved row is another one."""
    cache.delete(f"page:{page.id}")
    visit.save()


def either(page):
    if page.is_draft:
        cache.delete(f"page:{page.id}")
        return
    page.save()
