"""Stands in for the module of the same name in kafka-python's repository, which its source distribution leaves out. The
tests' fixtures import it; with KAFKA_URI given they start nothing."""


class ExternalService:
    """A broker that somebody else has started."""

    def __init__(self, host: str, port: int):
        self.host, self.port = host, port

    def open(self) -> None:
        """It is open."""

    def close(self) -> None:
        """It stays open."""


class SpawnedService:
    """Not used: the broker is an external one."""
