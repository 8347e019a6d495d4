"""A folder instead of Maven Central, so that nothing is downloaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

from drkit.local.jars import Module

MODULE = Module("org.example", "sample", "1.0")
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="folder"/>
  <resolvers>
    <filesystem name="folder" m2compatible="true">
      <artifact pattern="{root}/[artifact]-[revision].[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""


class Repository:
    """A repository of Maven's shape: a folder with one jar."""

    def __init__(self, root: Path) -> None:
        self.jar = root / "sample-1.0.jar"
        self.settings = root / "settings.xml"
        root.mkdir()
        self.settings.write_text(_SETTINGS.format(root=root))
        self.publish(b"the first content" * 1000)

    def publish(self, content: bytes, checksum: str = "") -> None:
        self.jar.write_bytes(content)
        digest = hashlib.sha1(content).hexdigest()  # noqa: S324  what Maven repositories publish
        self.jar.with_name(self.jar.name + ".sha1").write_text(checksum or digest)
