from contextvars import ContextVar

tenant = ContextVar("tenant")


def current(request):
    found = tenant.get(None)
    if found is None:
        found = load_tenant(request)
        tenant.set(found)
    return found
