"""What clients did on either cluster, for the verdict afterwards."""

from __future__ import annotations

from collections import Counter
import threading
from typing import NamedTuple, Self


class Got(NamedTuple):
    """A record that a consumer was given."""

    at_ms: int
    cluster: str
    """The id of the cluster that it was read from."""
    topic: str
    partition: int
    offset: int
    value: bytes


class ClientLog:
    """One client, in a ``with``: it works until :meth:`finish`."""

    def __init__(self, kind: str, group: str = "") -> None:
        self.kind, self.group = kind, group
        self.got: list[Got] = []
        self.committed: dict[tuple[str, str, int], int] = {}
        """Cluster, topic and partition → the largest offset whose commit the cluster has confirmed."""
        self.acked: list[bytes] = []
        self.uncertain: set[bytes] = set()
        """Values that were sent again and that the first cluster may hold, too."""
        self.errors: Counter[tuple[str, str]] = Counter()
        """Cluster and name of each error that the application got."""

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Begin nothing more; wait for what was begun."""
        raise NotImplementedError

    def commits(self, cluster: str, topic: str, partition: int, offset: int) -> None:
        """A commit was confirmed."""
        at = cluster, topic, partition
        self.committed[at] = max(offset, self.committed.get(at, 0))

    def values_of(self, cluster: str) -> set[bytes]:
        """What it read on one of the clusters."""
        return {g.value for g in tuple(self.got) if g.cluster == cluster}


class ThreadLog(ClientLog):
    """A client in a thread of this process."""

    def __init__(self, kind: str, group: str = "") -> None:
        super().__init__(kind, group)
        self.trouble: list[BaseException] = []
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def finish(self) -> None:
        self.stop.set()
        self._thread.join(60)

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.trouble.append(error)
            raise

    def run(self) -> None:
        """Work until ``stop``."""
        raise NotImplementedError
