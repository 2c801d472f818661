import fcntl
import os


def beside(folder):
    with open(os.path.join(folder, "lock")) as held:
        fcntl.flock(held.fileno(), fcntl.LOCK_EX)
        os.remove(os.path.join(folder, "data.tmp"))
        os.remove(os.path.join(folder, "lock"))
