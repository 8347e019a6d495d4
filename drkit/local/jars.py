"""Kafka's jars: fetched once into a cache, by the Ivy that ships inside pyspark, and checked at every use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
import hashlib
from importlib.resources import files
from importlib.util import find_spec
import json
import os
from pathlib import Path
import shutil
import subprocess
import tempfile
from typing import Final, NamedTuple

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from drkit.errors import ConfigError, Failed
from drkit.local.file_lock import locked
from drkit.local.java import find_java

NAME: Final = "jars.sha256"


def pinned() -> dict[str, str]:
    """Name of a jar, as it is stored → its SHA-256 in hexadecimal digits."""
    text = files("drkit.local").joinpath(NAME).read_text(encoding="ascii")
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


def written(digests: Mapping[str, str]) -> str:
    """The content of the list, in the form of ``sha256sum``."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def refuse_unpinned(found: Mapping[str, str], pins: Mapping[str, str], *, all_of_them: bool) -> None:
    """Check what was fetched.

    :param found: name → SHA-256
    :param all_of_them: whether every jar has to be on the list
    :raises Failed: one differs from the list, or is not on it
    """
    other = sorted(n for n, digest in found.items() if pins.get(n, digest) != digest)
    unknown = sorted(n for n in found if n not in pins) if all_of_them else []
    if other or unknown:
        evidence = "its SHA-256 is another than in" if other else "it is not in"
        raise Failed(
            "jar_not_pinned", where=", ".join(other or unknown), evidence=f"{evidence} drkit/local/{NAME}"
        )


def expected(known: Mapping[str, str], pins: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes that jars must have: by the list, or else those at their first use."""
    return {name: pins.get(name, digest) for name, digest in known.items()}


KAFKA_VERSION = "4.3.1"
Progress = Callable[[str], None]
"""Called with one line of progress at a time; the command line prints it on stderr."""

_MANIFEST = "manifest.json"
_FETCH_SECONDS = 900.0


class Module(NamedTuple):
    """A Maven artifact; ``force`` lets its version win over what others ask for."""

    organisation: str
    name: str
    version: str
    force: bool = False
    alone: bool = False
    """Without what it depends on."""


# Kafka's poms ask for slf4j-api 1.7 and bring no binding for it: without these two a broker logs nothing.
_LOGGING = (
    Module("org.slf4j", "slf4j-api", "2.0.17", force=True),
    Module("org.apache.logging.log4j", "log4j-slf4j2-impl", "2.25.4"),
)
BROKER = (
    Module("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    Module("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    *_LOGGING,
)
"""What a broker and its storage tool need."""
MIRROR_MAKER = (
    *BROKER,
    Module("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
    Module("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
)
"""MirrorMaker 2 with everything it runs on: the peer of the benchmark."""


class _FetchFailed(Failed):
    """One attempt did not work; another may."""


def default_cache(env: Mapping[str, str] = os.environ) -> Path:
    """``DRKIT_CACHE``, else ``drkit`` in the user's cache folder (XDG base directories)."""
    if chosen := env.get("DRKIT_CACHE"):
        return Path(chosen)
    home = env.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home, "drkit")


def classpath(
    cache: Path | None = None, progress: Progress = lambda _line: None, modules: Sequence[Module] = BROKER
) -> str:
    """The class path of these modules, fetched if they are missing or damaged.

    :raises ConfigError: no usable Java, or pyspark is not installed
    :raises Failed: the jars could not be fetched, or are not what they were at the first fetch
    """
    settings = os.environ.get("DRKIT_IVY_SETTINGS")
    jars = JarCache(cache or default_cache(), progress, Path(settings) if settings else None).jars(modules)
    return os.pathsep.join(str(jar) for jar in jars)


@dataclass(frozen=True, slots=True)
class JarCache:
    """A folder of jar sets, safe for several processes at once.

    :param settings: an Ivy settings file, for another repository than Maven Central
    :param attempts: how often to try, with growing pauses
    :param pins: SHA-256 that jars must have, by their names
    """

    root: Path
    progress: Progress = lambda _line: None
    settings: Path | None = None
    attempts: int = 4
    pins: Mapping[str, str] = field(default_factory=pinned)

    def jars(self, modules: Sequence[Module]) -> list[Path]:
        """The verified jars of a set, sorted by name."""
        folder = self.root / "jars" / _set_name(modules)
        with self._locked(folder.name):
            known = _read_manifest(folder)
            pinned = expected(known, self.pins).items()
            damaged = sorted(name for name, digest in pinned if _sha256(folder / name) != digest)
            if known and not damaged:
                return sorted(folder / name for name in known)
            if damaged:
                self.progress(f"damaged in the cache, fetching again: {', '.join(damaged)}")
            self._fetch(folder, modules, known, damaged)
            return sorted(folder / name for name in _read_manifest(folder))

    def _locked(self, name: str) -> AbstractContextManager[None]:
        waiting = "waiting for another process that fetches Kafka's jars"
        return locked(self.root / "locks" / f"{name}.lock", lambda: self.progress(waiting))

    def _fetch(
        self, folder: Path, modules: Sequence[Module], known: Mapping[str, str], damaged: list[str]
    ) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        ivy_cache = self.root / "ivy"
        for name in damaged:
            # Ivy would copy the jar from its own cache; make it download and check this one again.
            for copy in ivy_cache.rglob(name):
                copy.unlink()
        retrying = Retrying(
            stop=stop_after_attempt(self.attempts),
            wait=wait_exponential(multiplier=2, max=20),
            retry=retry_if_exception_type(_FetchFailed),
            before_sleep=lambda state: self.progress(
                f"download failed (attempt {state.attempt_number}), retrying"
            ),
            reraise=True,
        )
        # Ivy does not support two writers of one cache, and two sets share it.
        with self._locked("ivy"), tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
            fresh = Path(scratch, "set")
            retrying(self._run_ivy, fresh, modules, ivy_cache)
            manifest = {jar.name: _sha256(jar) for jar in sorted(fresh.glob("*.jar"))}
            # All of drkit's own sets are on the list; tests fetch others.
            refuse_unpinned(
                manifest, self.pins, all_of_them=bool(self.pins) and {*modules} <= {*MIRROR_MAKER}
            )
            _refuse_other_content(expected(known, self.pins), manifest)
            (fresh / _MANIFEST).write_text(json.dumps(manifest, indent=1))
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
        self.progress(f"{len(manifest)} jars of Kafka {KAFKA_VERSION} are in {folder}")

    def _run_ivy(self, target: Path, modules: Sequence[Module], ivy_cache: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        descriptor = target.parent / "ivy.xml"
        descriptor.write_text(_descriptor(modules))
        self.progress(f"fetching Kafka {KAFKA_VERSION} from Maven Central (once; about a minute)")
        command = [str(find_java()), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
        command += ["-ivy", str(descriptor), "-cache", str(ivy_cache), "-types", "jar", "bundle"]
        command += ["-retrieve", f"{target}/[artifact]-[revision].[ext]", "-warn"]
        if self.settings:
            command += ["-settings", str(self.settings)]
        try:
            done = subprocess.run(
                command, cwd=target, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise _fetch_failed(f"no end after {_FETCH_SECONDS:.0f} s") from error
        said = (done.stdout + done.stderr).strip()
        if done.returncode != 0 or not any(target.glob("*.jar")) or "UNRESOLVED DEPENDENCIES" in said:
            raise _fetch_failed(said[-600:])


def _fetch_failed(evidence: str) -> _FetchFailed:
    return _FetchFailed("jars_not_fetched", where=f"Maven Central, Kafka {KAFKA_VERSION}", evidence=evidence)


def _refuse_other_content(known: Mapping[str, str], fresh: Mapping[str, str]) -> None:
    other = sorted(name for name, digest in known.items() if fresh.get(name, digest) != digest)
    if other:
        raise Failed("jar_changed", where=", ".join(other), evidence="its SHA-256 differs from the manifest")


def _set_name(modules: Sequence[Module]) -> str:
    digest = hashlib.sha256(_descriptor(modules).encode()).hexdigest()
    return f"kafka-{KAFKA_VERSION}-{digest[:12]}"


def _descriptor(modules: Sequence[Module]) -> str:
    force = {True: ' force="true"', False: ""}
    alone = {True: ' transitive="false"', False: ""}
    lines = "\n".join(
        f'  <dependency org="{m.organisation}" name="{m.name}" rev="{m.version}"'
        f' conf="default->default"{force[m.force]}{alone[m.alone]}/>'
        for m in modules
    )
    return (
        '<ivy-module version="2.0">\n <info organisation="drkit" module="jars"/>\n'
        ' <configurations><conf name="default"/></configurations>\n'
        f" <dependencies>\n{lines}\n </dependencies>\n</ivy-module>\n"
    )


def _ivy_jar() -> Path:
    # find_spec does not import pyspark, which would take a second and a JVM's worth of memory.
    spec = find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise ConfigError("pyspark_missing_for_jars")


def _read_manifest(folder: Path) -> dict[str, str]:
    try:
        return {
            str(name): str(digest) for name, digest in json.loads((folder / _MANIFEST).read_text()).items()
        }
    except (OSError, ValueError, AttributeError):
        return {}  # never fetched, or the manifest itself is damaged: either way fetch


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing"


def copy_jars(folder: Path, jars: Sequence[Path]) -> None:
    """Put the jars into ``folder`` and take all others out: two versions of one do not go together."""
    folder.mkdir(parents=True, exist_ok=True)
    for other in {*folder.glob("*.jar")} - {folder / jar.name for jar in jars}:
        other.unlink()
    for jar in jars:
        shutil.copyfile(jar, folder / jar.name)


if __name__ == "__main__":
    import sys

    if sys.argv[1:] == ["--pin"]:
        # For another version of Kafka: what is fetched now, with its repository's checksums, is the list.
        cache = JarCache(default_cache(), pins={})
        pins = {jar.name: _sha256(jar) for modules in (BROKER, MIRROR_MAKER) for jar in cache.jars(modules)}
        Path(__file__).with_name(NAME).write_text(written(pins), encoding="ascii")
        raise SystemExit
    # `make setup` calls this, so that the first test does not wait for a download. With a folder it also
    # fills the context of docker/kafka/Dockerfile.
    found = classpath(progress=lambda line: print(line, file=sys.stderr))  # noqa: T201  no command line here
    if sys.argv[1:]:
        copy_jars(Path(sys.argv[1]), [Path(jar) for jar in found.split(os.pathsep)])
