from django.core.cache import cache


class Permission(Model):
    def key(self):
        return Permission.key_of(self.user_id)

    @staticmethod
    def key_of(user_id):
        return "permissions:%d" % user_id

    @classmethod
    def of(cls, user, grants):
        key = cls.key_of(user.pk) + f":{grants}"
        found = cache.get(key)
        if found is None:
            found = load(user, grants)
            cache.set(key, found, 60)
        return found

    def changed(self):
        cache.delete(self.key())
