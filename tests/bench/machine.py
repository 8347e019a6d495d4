"""Facts about the machine and the software, kept beside the figures."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
import os
from pathlib import Path
import platform
import re
import subprocess


def facts(java: str, classpath: str) -> dict[str, str]:
    """What a reader needs to judge the figures; no name of the host."""
    model = _first(Path("/proc/cpuinfo"), r"model name\s*:\s*(.+)")
    kibibytes = _first(Path("/proc/meminfo"), r"MemTotal:\s*(\d+)")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{os.cpu_count()} cores, {model}",
        "memory": f"{int(kibibytes) / 2**20:.0f} GiB",
        "system": platform.system(),
        "Kafka (brokers, MM2)": _kafka_release(classpath),
        "PySpark": version("pyspark"),
        "Python": platform.python_version(),
        "Java": _java_release(java),
        "confluent-kafka": version("confluent-kafka"),
        "kafka-python": version("kafka-python"),
    }


def _first(path: Path, pattern: str) -> str:
    found = re.search(pattern, path.read_text())
    return found.group(1).strip() if found else "0"


def _kafka_release(classpath: str) -> str:
    found = re.search(r"connect-mirror-(\d[\d.]*)\.jar", classpath)
    return found.group(1) if found else "unknown"


def _java_release(java: str) -> str:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "([^"]+)"', said)
    return found.group(1) if found else "unknown"
