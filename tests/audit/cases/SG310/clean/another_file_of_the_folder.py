import fcntl
import os


def with_a_temporary_file(folder):
    with open(os.path.join(folder, "lock")) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write(os.path.join(folder, "data.tmp"))
        os.remove(os.path.join(folder, "data.tmp"))


def with_data(lock, data):
    with open(lock) as held:
        fcntl.flock(held.fileno(), fcntl.LOCK_EX)
        with open(data) as file:
            read(file)
        os.remove(data)


def of_two(paths):
    held = os.open(paths["lock"], os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    os.remove(paths["data"])
