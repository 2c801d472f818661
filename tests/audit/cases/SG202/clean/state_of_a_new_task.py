import logging

from shop import count_of, delete_redis_value, export, file_of, redis_tasks
from shop.errors import Failed, TooMany


class Download:
    def post(self, path, task_id=None):
        ready = file_of(path)
        if ready:
            if task_id and redis_tasks.get_redis_value("queued:{}".format(task_id)):
                delete_redis_value("queued:{}".format(task_id))
            return {"status": "complete", "url": ready}
        if task_id:
            if redis_tasks.get_redis_value("failed:{}".format(task_id)):
                delete_redis_value("failed:{}".format(task_id))
                logging.error("download %s failed", task_id)
                raise Failed
            if redis_tasks.get_redis_value("queued:{}".format(task_id)):
                return {"status": "queued", "task_id": task_id}
        if count_of(path) > 500:
            raise TooMany
        task_id = export.delay(path).id
        redis_tasks.set_redis_value("queued:{}".format(task_id), True, age=7200)
        return {"status": "queued", "task_id": task_id}
