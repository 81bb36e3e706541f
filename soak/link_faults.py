"""Faults of the link between Twinlog and one cluster. Clients of the soak do not use it."""

from lab.errors import LabError
from lab.link_conditions import Conditions
from lab.proxy import Proxy
from soak.fault import Fault
from soak.stage import NORMAL


class _PacketFault(Fault):
    """Of the link whose packets pass an emulator."""

    def change(self, conditions: Conditions) -> str:
        if self.stage.packets is None:
            raise LabError(f"{self.planned.kind}: not possible here")
        self.stage.packets.change(conditions)
        return f"link to {self.planned.kind.side}: {conditions}"

    def end(self) -> None:
        if self.stage.packets is not None:
            self.stage.packets.change(NORMAL)


class LinkCut(_PacketFault):
    def begin(self) -> str:
        return self.change(Conditions(cut=True))


class LinkLossy(_PacketFault):
    def begin(self) -> str:
        return self.change(Conditions(round_trip=0.05, loss=self.planned.pick((0.02, 0.1, 0.3))))


class LinkSlow(_PacketFault):
    def begin(self) -> str:
        return self.change(Conditions(round_trip=0.3, jitter=0.1, rate=self.planned.pick((20_000.0, 200_000.0))))


class _ProxyFault(Fault):
    @property
    def proxy(self) -> Proxy:
        return self.stage.proxies[self.planned.kind.side]


class ConnectionsReset(_ProxyFault):
    """Now, and once more in the middle of a later response or request of each broker."""

    def begin(self) -> str:
        self.proxy.cut()
        count = self.planned.choice % 50_000
        direction = "responses" if self.planned.choice % 2 else "requests"
        self.proxy.cut_after(count, "responses" if self.planned.choice % 2 else "requests")
        return f"connections to {self.cluster.name} reset, and again after {count} bytes of {direction}"


class LinkStalled(_ProxyFault):
    def begin(self) -> str:
        self.proxy.stall()
        return f"link to {self.cluster.name} stalled: connections stay open, nothing passes"

    def end(self) -> None:
        self.proxy.resume()


class ResponsesLost(_ProxyFault):
    """The cluster executes requests: what is produced then is stored, and Twinlog does not know."""

    def begin(self) -> str:
        self.proxy.black_hole()
        return f"responses of {self.cluster.name} lost"

    def end(self) -> None:
        self.proxy.resume()


class ConnectionsRefused(_ProxyFault):
    def begin(self) -> str:
        self.proxy.refuse()
        self.proxy.cut()
        return f"connections to {self.cluster.name} reset and refused"

    def end(self) -> None:
        self.proxy.accept()
