import fcntl
import os
from pathlib import Path

LOCK_FILE = Path("/tmp/scheduler.lock")
UNLOCKED = Path("/tmp/unlocked.txt")


def acquire() -> bool:
    try:
        LOCK_FILE.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def exclusive(lock_path: str) -> None:
    if os.path.exists(lock_path):
        return
    with open(lock_path, "x"):
        run()


def locked(lock_path: str) -> None:
    with open(lock_path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(lock_path):
            run()


def shown(pid_file: Path) -> str:
    """It only reads."""
    return pid_file.read_text() if pid_file.exists() else ""


def another(lock_file: Path, report: Path) -> None:
    if lock_file.exists():
        return
    report.write_text("nothing runs")


def cached(block_path: Path) -> None:
    if not block_path.exists():
        block_path.write_text(load())


class Worker:
    def beat(self) -> None:
        """It only renews what is there."""
        if self.lock_file.exists():
            self.lock_file.touch()

    def begin(self) -> bool:
        with self.lock:
            if self.pid_file.exists():
                return False
            self.pid_file.write_text(str(os.getpid()))
        return True


def resolved(project, lock_file: Path):
    if lock_file.exists():
        return parse(lock_file)
    lock_file.write_text(resolve(project))
    return parse(lock_file)


def opened(lock):
    if not lock.exists():
        return lock.open("w")
    return None


def begun(lock_file: Path) -> bool:
    if lock_file.exists():
        return False
    try:
        open(lock_file, "x").close()
    except OSError:
        return False
    with open(lock_file, "w") as file:
        file.write(str(os.getpid()))
    return True
