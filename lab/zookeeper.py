"""The ZooKeeper server of a cluster whose Kafka is older than KRaft; it comes with the broker's own dependencies."""

import socket
from pathlib import Path

from lab.java_process import JavaProcess
from lab.ports import HOST, free_port
from twinlog.config.properties import properties_text


class ZooKeeper:
    def __init__(self, name: str, line: str, folder: Path) -> None:
        self.address = f"{HOST}:{free_port()}"
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        host, _, port = self.address.rpartition(":")
        file = folder / "zookeeper.properties"
        file.write_text(
            properties_text(
                {
                    "dataDir": str(self.data),
                    "clientPort": port,
                    "clientPortAddress": host,
                    "maxClientCnxns": "0",
                    # Sessions of brokers may be as short as twice this, and not longer than twenty times this.
                    "tickTime": "1000",
                    "admin.enableServer": "false",  # it would need Jetty
                    "4lw.commands.whitelist": "dump",  # see has_broker
                }
            )
        )
        self.process = JavaProcess(
            f"{name} ZooKeeper",
            folder / "zookeeper.log",
            main="org.apache.zookeeper.server.quorum.QuorumPeerMain",
            arguments=[str(file)],
            line=line,
            role="zookeeper",
        )


def has_broker(address: str, node: int) -> bool:
    """Whether the session of a broker has not ended yet: a killed one cannot register again before."""
    host, _, port = address.rpartition(":")
    found = b""
    try:
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(b"dump")
            while some := connection.recv(65536):
                found += some
    except OSError:  # it is being started
        return False
    return f"/brokers/ids/{node}".encode() in found.split()
