"""Settings of gunicorn, for an application that is imported once for all workers of gevent."""

from gevent import monkey

monkey.patch_all()
