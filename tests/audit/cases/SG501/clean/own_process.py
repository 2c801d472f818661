from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.blocking import BlockingScheduler

scheduler = BlockingScheduler(jobstores={"default": RedisJobStore()})
