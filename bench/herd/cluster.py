"""Several Valkeys on loopback: a cluster with failover, or a master that sentinels watch.

    with ValkeyCluster(replicas=1) as cluster:
        guard = StampedeGuard.from_url(cluster.url)
        cluster.master_of("shop:=report").kill()

Both start within a second or two, because each node gets the addresses of the others at once, without gossip.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from redis.crc import key_slot

from bench.herd import processes
from bench.herd.valkey import ValkeyServer, find_valkey, free_port

__all__ = ["ValkeyCluster", "ValkeySentinel"]

_PATIENCE = 30.0
_SLOTS = 16384


@dataclass(slots=True)
class ValkeyCluster:
    """`masters` with `replicas` each. A node may be silent for `node_timeout` seconds.

    `options` are the directives of every node. `announce(port)` gives the port that clients get instead of the node's
    own (a proxy in front of it). Raises `RuntimeError` if the cluster does not start.
    """

    masters: int = 3
    replicas: int = 0
    node_timeout: float = 1.0
    options: Mapping[str, str] = field(default_factory=dict)
    servers: list[ValkeyServer] = field(default_factory=list, init=False)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Names the first masters; one of them may be dead."""
        password = self.options.get("requirepass", "")
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers[: self.masters])
        return f"redis+cluster://:{password}@{hosts}" if password else f"redis+cluster://{hosts}"

    def start(self) -> None:
        """Start the nodes, join them, and wait until every one of them calls the cluster sound."""
        for _ in range(self.masters * (1 + self.replicas)):
            server = ValkeyServer(options=self._directives())
            server.start()
            self.servers.append(server)
        masters, replicas = self.servers[: self.masters], self.servers[self.masters :]
        for number, server in enumerate(masters):
            first, last = number * _SLOTS // self.masters, (number + 1) * _SLOTS // self.masters - 1
            _told(server, "CLUSTER", "ADDSLOTSRANGE", first, last)
            _told(server, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server in self.servers[1:]:
            # Without the port of its bus a node would not know whom to ask.
            _told(self.servers[0], "CLUSTER", "MEET", "127.0.0.1", server.port, self._bus(server))
        _until(lambda: all(self._knows(server) for server in self.servers), "the nodes do not meet")
        for number, server in enumerate(replicas):
            master = masters[number % self.masters]
            _told(server, "CLUSTER", "REPLICATE", _told(master, "CLUSTER", "MYID").decode())
        _until(lambda: all(self._sound(server) for server in self.servers), "the cluster is not sound")

    def close(self) -> None:
        for server in self.servers:
            server.close()

    def master_of(self, name: str) -> ValkeyServer:
        """The server that holds the keys of this entry now."""
        slot = key_slot(b"{%b}" % name.encode())
        for server in self.servers:
            if server.running:
                for first, last, master, *_ in _told(server, "CLUSTER", "SLOTS"):
                    if first <= slot <= last:
                        return next(other for other in self.servers if other.port == master[1])
        raise RuntimeError("no node of the cluster runs")

    def _directives(self) -> dict[str, str]:
        return {
            "cluster-enabled": "yes",
            "cluster-config-file": "nodes.conf",
            "cluster-node-timeout": str(round(self.node_timeout * 1000)),
            "cluster-port": str(free_port()),
            "cluster-replica-validity-factor": "0",
            "repl-diskless-sync-delay": "0",
            "enable-debug-command": "yes",
            **self.options,
        }

    def _bus(self, server: ValkeyServer) -> str:
        return server.options["cluster-port"]

    def _knows(self, server: ValkeyServer) -> bool:
        nodes = _told(server, "CLUSTER", "NODES").decode().splitlines()
        return len(nodes) == len(self.servers) and "handshake" not in "".join(nodes)

    def _sound(self, server: ValkeyServer) -> bool:
        state = _told(server, "CLUSTER", "INFO").decode()
        slots = _told(server, "CLUSTER", "SLOTS")
        linked = all(len(entry) == 3 + self.replicas for entry in slots)
        role = _told(server, "ROLE")
        return (
            "cluster_state:ok" in state
            and sum(last + 1 - first for first, last, *_ in slots) == _SLOTS
            and linked
            and (role[0] == b"master" or role[3] == b"connected")
        )


@dataclass(slots=True)
class ValkeySentinel:
    """A master and a replica under the name `service`, watched by `sentinels`.

    `down_after` in seconds is how long the master may be silent. Raises `RuntimeError` when they do not come up.
    """

    service: str = "mymaster"
    sentinels: int = 3
    down_after: float = 0.5
    options: Mapping[str, str] = field(default_factory=dict)
    servers: list[ValkeyServer] = field(default_factory=list, init=False)
    ports: list[int] = field(default_factory=list, init=False)
    _children: list[processes.Child] = field(default_factory=list, init=False, repr=False)
    _directory: Path | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"redis+sentinel://{hosts}/{self.service}/0"

    def start(self) -> None:
        """Start the servers and the sentinels, and wait until every sentinel knows the others and the replica."""
        master = ValkeyServer(options={"repl-diskless-sync-delay": "0", **self.options})
        master.start()
        self.servers.append(master)
        replica = ValkeyServer(options={**master.options, "replicaof": f"127.0.0.1 {master.port}"})
        replica.start()
        self.servers.append(replica)
        self._directory = processes.temporary_directory("herd-sentinel-")
        for number in range(self.sentinels):
            self._start_sentinel(number, master)
        _until(lambda: all(self._ready(port) for port in self.ports), "the sentinels do not see each other")

    def close(self) -> None:
        for child in self._children:
            child.kill()
        for server in self.servers:
            server.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def kill_sentinel(self, number: int) -> None:
        """SIGKILL."""
        self._children[number].kill()

    def master(self) -> ValkeyServer:
        """Whom the sentinels name now."""
        for port in self.ports:
            with contextlib.suppress(redis.ConnectionError), _client(port) as client:
                named = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
                return next(server for server in self.servers if server.port == int(named[1]))
        raise RuntimeError("no sentinel answers")

    def _start_sentinel(self, number: int, master: ValkeyServer) -> None:
        assert self._directory is not None
        port = free_port()
        folder = self._directory / str(number)
        folder.mkdir()
        settings = folder / "sentinel.conf"
        settings.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
            f"sentinel monitor {self.service} 127.0.0.1 {master.port} {self.sentinels // 2 + 1}\n"
            f"sentinel down-after-milliseconds {self.service} {round(self.down_after * 1000)}\n"
            f"sentinel failover-timeout {self.service} 3000\n"
        )
        command = [str(find_valkey()), str(settings), "--sentinel"]
        self._children.append(processes.start(command, log=folder / "log"))
        self.ports.append(port)

    def _ready(self, port: int) -> bool:
        try:
            with _client(port) as client:
                state = client.execute_command("SENTINEL", "MASTER", self.service)
        except redis.ConnectionError:
            return False
        known = state if isinstance(state, dict) else dict(zip(state[::2], state[1::2], strict=True))
        known = {str(name, "ascii") if isinstance(name, bytes) else name: known[name] for name in known}
        return (
            int(known["num-other-sentinels"]) == self.sentinels - 1
            and int(known["num-slaves"]) == len(self.servers) - 1
            and _told(self.servers[1], "ROLE")[3] == b"connected"
        )


def _client(port: int, **settings: Any) -> redis.Redis:
    return redis.Redis(port=port, socket_timeout=5.0, **settings)


def _told(server: ValkeyServer, *command: Any) -> Any:
    """The raw answer of one server."""
    with server.client(socket_timeout=5.0) as client:
        client.response_callbacks.clear()
        return client.execute_command(*command)


def _until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{otherwise}, even after {_PATIENCE:g} s")
        time.sleep(0.05)
