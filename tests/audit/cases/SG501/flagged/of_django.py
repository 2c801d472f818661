from apscheduler.schedulers.background import BackgroundScheduler
from django_apscheduler.jobstores import DjangoJobStore

nightly = BackgroundScheduler()
nightly.add_jobstore(DjangoJobStore(), "default")
