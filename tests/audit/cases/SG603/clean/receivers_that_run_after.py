from django.db.models import signals

from access.cache import AccessCache


def group_changed(sender=None, instance=None, **kwargs):
    AccessCache(instance.tenant).delete_policy(instance.uuid)


def members_changed(sender=None, instance=None, action=None, **kwargs):
    if action in ("pre_remove", "post_remove", "post_add"):
        AccessCache(instance.tenant).delete_policy(instance.uuid)


def group_about_to_change(sender=None, instance=None, **kwargs):
    rows.delete_policy(instance.uuid)


signals.pre_delete.connect(group_changed, sender=Group)
signals.post_delete.connect(group_changed, sender=Group)
signals.pre_save.connect(group_about_to_change, sender=Group)
signals.m2m_changed.connect(members_changed, sender=Group.members.through)
