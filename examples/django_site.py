"""A Django site in one file: cache_page and a cached helper without herds, and invalidation with the commit.

    python examples/django_site.py

prints, the first time:

    counted the rows of project 7
    computed the page
    20 visitors have: {'project 7 has 2 rows'}
    rolled back: project 7 has 2 rows
    counted the rows of project 7
    committed: 3 rows
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import django
from django.conf import settings

CACHE = {
    "BACKEND": "stampede_guard.integrations.django.Cache",
    "LOCATION": os.environ.get("REDIS_URL", "redis://localhost:6379/0"),
    "OPTIONS": {"namespace": "site"},
}
DATABASE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "file:site?mode=memory&cache=shared"}
settings.configure(
    ALLOWED_HOSTS=["*"], CACHES={"default": CACHE}, DATABASES={"default": DATABASE}, ROOT_URLCONF=__name__
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402 - they read the settings
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.cache import cache_page  # noqa: E402

from stampede_guard.integrations.django import InvalidatingQuerySet, invalidates, locked_cache  # noqa: E402


@invalidates("project:{project}")
class Row(models.Model):
    project = models.IntegerField()
    objects = InvalidatingQuerySet.as_manager()

    class Meta:
        app_label = "site"


@locked_cache(ttl=300, tags=("project:{project}",))
def rows(project: int) -> int:
    print(f"counted the rows of project {project}")
    return Row.objects.filter(project=project).count()


@cache_page(60)
def page(request: HttpRequest, project: int) -> HttpResponse:
    text = f"project {project} has {rows(project)} rows"
    print("computed the page")
    return HttpResponse(text)


urlpatterns = [path("<int:project>", page)]

if __name__ == "__main__":
    with connection.schema_editor() as editor:
        editor.create_model(Row)
    Row.objects.bulk_create([Row(project=7), Row(project=7)])
    with ThreadPoolExecutor(20) as visitors:
        pages = list(visitors.map(lambda _: Client().get("/7").content.decode(), range(20)))
    print(len(pages), "visitors have:", set(pages))
    with transaction.atomic():
        Row.objects.create(project=7)
        transaction.set_rollback(True)
    print("rolled back: project 7 has", rows(7), "rows")
    Row.objects.create(project=7)
    print("committed:", rows(7), "rows")
