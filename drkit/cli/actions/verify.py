"""``drkit verify``: source = target, record by record."""

from __future__ import annotations

from pathlib import Path

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.session import session
from drkit.cli.talk import say
from drkit.spark.conf import given_conf
from drkit.verify.report import answer, exit_code
from drkit.verify.run import VerifyRequest
from drkit.verify.run import verify as compare


def verify(
    flow: str | None,
    topics: tuple[str, ...],
    max_differences: int,
    master: str | None,
    conf: tuple[str, ...],
    spark_properties: Path | None,
    *,
    only_new: bool,
) -> int:
    """Run ``drkit verify``."""
    spark = given_conf(conf, spark_properties)
    request = VerifyRequest(flow, topics, only_new=only_new, master=master, conf=spark)
    reports = compare(configuration().settings, request, say)
    emit(answer(reports, max_differences, whole=session().as_json))
    return exit_code(reports)
