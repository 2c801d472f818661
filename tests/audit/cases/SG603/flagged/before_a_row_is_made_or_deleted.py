from django.core.cache import cache
from django.db import IntegrityError

from app.models import Like, Status


def like(request, status_id):
    cache.delete(f"likes-{status_id}")
    status = Status.objects.get(id=status_id)
    try:
        Like.objects.create(status=status, user=request.user)
    except IntegrityError:
        return False
    return True
