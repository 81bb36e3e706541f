"""The ZooKeeper server of a cluster whose Kafka is older than KRaft; it comes with the broker's own dependencies."""

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
