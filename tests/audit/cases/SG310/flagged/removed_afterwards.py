import fcntl
import os
from pathlib import Path

import fasteners


def interprocess_locked(name):
    lock = fasteners.InterProcessLock(name)

    def decorator(function):
        def wrapper(*args):
            with lock:
                found = function(*args)
            os.remove(name)
            return found

        return wrapper

    return decorator


class Lock:
    def __init__(self, name):
        self.name = Path(name)

    def __enter__(self):
        self.file = open(self.name, "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        fcntl.flock(self.file, fcntl.LOCK_UN)
        self.name.unlink()
