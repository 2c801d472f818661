from django.core.cache import cache

from app.models import Like


def unlike(request, status_id):
    cache.delete(f"likes-{status_id}")
    found = Like.objects.filter(status_id=status_id, user=request.user).first()
    found.delete()
