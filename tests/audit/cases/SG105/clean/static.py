from django.core.cache import cache
from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_page


@cache_page(3600)
def robots(request):
    return HttpResponse("User-agent: *", content_type="text/plain")


@cache_page(3600)
def words(request):
    return HttpResponse(_("Yes") + _("No"))


class Prefixed:
    def get_or_set(self, key, default, timeout=300):
        return cache.get_or_set(self.prefix + key, default, timeout)
