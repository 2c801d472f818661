import pickle
from functools import wraps

from app.core import sentinel


def memoize(timeout=300):
    def decorator(f):
        @wraps(f)
        def wrapper(*args, **kwargs):
            key = memo_key(f.__name__, args, kwargs)
            output = sentinel.slave.get(key)
            if output:
                return pickle.loads(output)
            output = f(*args, **kwargs)
            sentinel.master.setex(key, timeout, pickle.dumps(output))
            return output

        return wrapper

    return decorator
