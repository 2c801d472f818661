import fcntl
import os

import fasteners


def rebuild(name, target):
    with fasteners.InterProcessLock(name):
        if os.path.exists(target):
            os.remove(target)
        build(target)


def append(line):
    with open(LOG, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line)


def clean(pages):
    for page in pages:
        os.unlink(page)
