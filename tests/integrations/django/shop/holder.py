"""A process that leads the flight of a fragment until it is killed."""

from __future__ import annotations

import os
import signal

import django
from django.conf import settings

from tests.integrations.django.shop.settings import caches_at, settings_with

settings.configure(
    **settings_with(":memory:", caches_at(os.environ["SHOP_URL"], os.environ["SHOP_NAMESPACE"]))
)
django.setup()

if __name__ == "__main__":
    from django.core.cache import cache

    assert cache.get("template.cache.x") is None
    print("leading", flush=True)
    signal.pause()
