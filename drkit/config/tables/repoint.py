"""One way to publish the client endpoint, as a table of the configuration."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, PositiveFloat, model_validator
from pydantic_core import PydanticCustomError

from drkit.config.tables.fields import Patterns, Strict, http_address, http_headers, no_nul, suggestion
from drkit.masking import MASK
from drkit.topology import NameFilter

_COMMON: Final = frozenset({"kind", "groups", "topics", "timeout_seconds", "retry_seconds"})
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "file": ("path",),
    "command": ("command",),
    "webhook": ("url",),
    "configmap": ("name",),
    "print": (),
}
_MAY_HAVE: Final[dict[str, frozenset[str]]] = {
    "webhook": frozenset({"secret", "headers", "ca_file"}),
    "configmap": frozenset({"namespace", "key", "kubeconfig"}),
}
_EVERY: Final = ".*"
_MOST_KEY: Final = r"^[-._a-zA-Z0-9]{1,253}$"


def _kind(kind: str) -> str:
    if kind not in _NEEDED:
        text = "there is no kind '{kind}' of repointing: {hint}"
        raise PydanticCustomError("kind", text, {"kind": kind, "hint": suggestion(kind, _NEEDED)})
    return kind


class RepointSettings(Strict):
    """One way to tell clients where to go; which of the fields are needed depends on ``kind``."""

    kind: Annotated[str, AfterValidator(_kind)]
    """How clients are repointed: "file", "command", "webhook", "configmap" or "print"."""
    groups: Patterns = (".*",)
    """Who follows it: it is used when one of these consumer groups is moved."""
    topics: Patterns | None = None
    """Whose producers follow it: it is used when one of these topics of the source is moved. Absent: no topic
    is named; where ``groups`` is absent, too, every client follows it."""
    timeout_seconds: PositiveFloat = 10.0
    """How long one try may take."""
    retry_seconds: float = Field(30.0, ge=0)
    """How long it is tried again after what may pass."""
    path: Annotated[str, AfterValidator(no_nul)] | None = None
    """For file: which file, a full path; applications with ``drkit.client`` follow it."""
    command: tuple[Annotated[str, Field(min_length=1), AfterValidator(no_nul)], ...] | None = None
    """For command: the program and its arguments; no shell. It gets the endpoint as JSON on its input and as
    variables ``DRKIT_…``, and ends with 0 (done) or 3 (it knows a newer term)."""
    url: Annotated[str, AfterValidator(http_address)] | None = None
    """For webhook: where to post."""
    secret: str | None = None
    """For webhook: signs what is posted, with HMAC-SHA256."""
    headers: Annotated[dict[str, str], AfterValidator(http_headers)] | None = None
    """For webhook: more headers, as in ``Authorization``."""
    ca_file: Annotated[str, AfterValidator(no_nul)] | None = None
    """For webhook: the authorities that its certificate may have, in PEM; absent: the system's."""
    name: str | None = None
    """For configmap: its name."""
    namespace: str | None = None
    """For configmap: its namespace; absent: that of the kubeconfig, or of drkit's pod."""
    key: Annotated[str, Field(pattern=_MOST_KEY)] | None = None
    """For configmap: the key that holds the endpoint; absent: ``endpoint.json``."""
    kubeconfig: Annotated[str, AfterValidator(no_nul)] | None = None
    """For configmap: how the API server is reached; absent: by drkit's service account, where it runs in a
    pod, else by ``KUBECONFIG`` or ``~/.kube/config``."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = _NEEDED[self.kind]
        for key in needed:
            if not getattr(self, key):
                text = "kind '{kind}' needs '{key}'"
                raise PydanticCustomError("incomplete", text, {"kind": self.kind, "key": key})
        allowed = _COMMON | set(needed) | _MAY_HAVE.get(self.kind, frozenset())
        for key in sorted(self.model_fields_set - allowed):
            if getattr(self, key) is not None:
                text = "kind '{kind}' has no '{key}': {hint}"
                hint = suggestion(key, allowed - _COMMON)
                raise PydanticCustomError("foreign", text, {"kind": self.kind, "key": key, "hint": hint})
        if self.path is not None and not Path(self.path).is_absolute():
            raise PydanticCustomError("path", "'{path}' is not a full path", {"path": self.path})
        return self

    @property
    def is_unlimited(self) -> bool:
        """Whether every client may follow it: neither groups nor topics limit it."""
        return self.topics is None and _EVERY in self.groups

    def reaches_group(self, group: str) -> bool:
        """Whether members of this group follow it."""
        if self.topics is not None and "groups" not in self.model_fields_set:
            return False  # limited by topics alone
        return NameFilter(self.groups).accepts(group)

    def reaches_topic(self, topic: str) -> bool:
        """Whether producers of this topic of the source follow it, as far as the settings say."""
        return self.is_unlimited or NameFilter(self.topics or ()).accepts(topic)

    def tells(self, groups: Iterable[str], topics: Iterable[str] = ()) -> bool:
        """Whether it is used when these groups and topics are moved."""
        found = any(map(self.reaches_group, groups)) or any(map(self.reaches_topic, topics))
        return found or self.is_unlimited

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        hidden = {"secret", "url"}
        found: list[tuple[str | None, Any]] = []
        for name, value in super().__repr_args__():
            if name == "headers" and value:
                found.append((name, dict.fromkeys(value, MASK)))
            else:
                found.append((name, MASK if name in hidden and value else value))
        return found
