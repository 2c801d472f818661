import os
from os.path import isfile
from pathlib import Path

LOCK_FILE = Path("/tmp/scheduler.lock")


def acquire() -> bool:
    if LOCK_FILE.exists():
        return False
    LOCK_FILE.write_text(str(os.getpid()))
    return True


def start(lock_path: str) -> None:
    if not os.path.exists(lock_path):
        with open(lock_path, "w") as file:
            file.write("1")
        run()


class Scheduler:
    def begin(self) -> None:
        if isfile(self.pid_file):
            raise SystemExit("runs already")
        with open(self.pid_file, mode="w") as file:
            file.write(str(os.getpid()))
