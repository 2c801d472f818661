from django.core.cache import cache

from app.models import Audit, Like, Status


def like(request, status_id, reason):
    status = Status.objects.get(id=status_id)
    Like.objects.create(status=status, user=request.user)
    cache.delete(f"likes-{status_id}")
    Audit.objects.create(user=request.user, reason=reason)
