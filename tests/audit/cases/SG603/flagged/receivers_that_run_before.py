from django.db.models import signals

from access.cache import AccessCache


def group_deleted(sender=None, instance=None, **kwargs):
    cache = AccessCache(instance.tenant)
    for member in instance.members.all():
        cache.delete_policy(member.uuid)


def members_changed(sender=None, instance=None, action=None, **kwargs):
    cache = AccessCache(instance.tenant)
    if action in ("post_add", "pre_remove"):
        cache.delete_policy(instance.uuid)


signals.pre_delete.connect(group_deleted, sender=Group)
signals.post_save.connect(group_deleted, sender=Group)
signals.m2m_changed.connect(members_changed, sender=Group.members.through)
