"""What stands after `cached` is what is kept, here a property that is for sale."""

from shop.models import Property
from shop.stores import get_cached_property, set_cached_property


def property_of(number):
    found = get_cached_property(number)
    if found is None:
        found = list(Property.objects.filter(number=number))
        set_cached_property(number, found)
    return found
