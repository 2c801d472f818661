def remind(user):
    if cache.get(f"pricing:{user.id}"):
        return
    cache.set(f"pricing:{user.id}", prices(user), 3600)
    send(user)


class Pool:
    def take(self, task):
        if self.tasks.is_running(task):
            return
        self.tasks.mark_running(task)
        task.run()
