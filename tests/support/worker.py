"""Stands for a worker of pytest-xdist that `preloaded` forks: gives it its streams, and ends with it.

python -I -S worker.py SOCKET NAME EXECMODEL ...
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

__all__: list[str] = []


def main() -> int:
    # What a terminal interrupts is the run. Its controller ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    place, name, execmodel = sys.argv[1:4]
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(place)
        socket.send_fds(server, [json.dumps([name, execmodel]).encode()], [0, 1, 2])
        # Nobody but the worker has them now: where it ends, the controller reads to the end of the stream.
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        ended = server.recv(1)
    return ended[0] if ended else 1


if __name__ == "__main__":
    sys.exit(main())
