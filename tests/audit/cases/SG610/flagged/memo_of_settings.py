from functools import lru_cache

from app.extensions import cache, db


class Settings:
    @staticmethod
    @lru_cache(maxsize=128)
    def value_of(name):
        return Setting.query.filter_by(name=name).first().value

    @staticmethod
    def change(name, value):
        Setting.query.filter_by(name=name).one().value = value
        db.session.commit()
        Settings.value_of.cache_clear()


@lru_cache
def config():
    return load()


@router.post("/config")
async def put_config(new: Config):
    write(new)
    config.cache_clear()
    return {}


@celery.task
def rotate():
    config.cache_clear()
