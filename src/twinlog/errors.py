"""The one tree of errors. Each is a sentence for an operator: what, which value, what to do.

* TwinlogError          anything that ends a command with one line and a non-zero exit code
    x ConfigError       the operator must change the configuration; carries every mistake found
    x JavaError         no usable Java on this machine
    x LabError          a local cluster, or the peer, did not do what it was asked
"""


class TwinlogError(Exception):
    exit_code = 1


class ConfigError(TwinlogError):
    exit_code = 2


class JavaError(TwinlogError):
    """`missing` tells a machine with no Java (one can be brought by pip) from one whose Java is too old."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class LabError(TwinlogError):
    pass
