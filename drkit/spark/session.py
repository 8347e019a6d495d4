"""The Spark session of `drkit replicate` and `drkit verify`: small, quiet, refused when it cannot work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
import logging
import os
from pathlib import Path
import shutil
import signal
import subprocess
import threading
from typing import Final, NamedTuple

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from drkit import observe
from drkit.errors import ConfigError, Failed
from drkit.local.java import find_java
from drkit.spark.class_archive import archive_option
from drkit.spark.cluster import ready_cluster
from drkit.spark.conf import (
    NO_CONF,
    is_encrypted,
    may_be_seen,
    refuse_clear_text,
    refuse_unfit,
    spark_settings,
    workers_python,
)
from drkit.spark.jobs import evidence_of
from drkit.spark.jvm import (
    MEMORY,
    SparkJvm,
    jvm_options,
    launched,
    make_folder,
    open_log,
    prepare_environment,
    socket_settings,
    take_early,
)
from drkit.spark.master import Master, MasterRoute, choose_master, find_route
from drkit.spark.shipping import carrier, make_archive
from drkit.spark.workshop import BROKEN as BROKEN
from drkit.spark.workshop import SharedSpark as SharedSpark

_STOP_POLL_SECONDS: Final = 0.1


class SparkPlan(NamedTuple):
    """Master and settings for a Spark that is not started yet."""

    master: Master
    route: MasterRoute | None
    tasks: int
    """At once."""
    conf: Mapping[str, str]
    """The user's settings of Spark."""
    python: str
    """Of the workers."""


def plan_spark(
    url: str | None, tasks: int, conf: Mapping[str, str] = NO_CONF, secrets: Iterable[str] = ()
) -> SparkPlan:
    """Check what can be checked before Spark starts, the master among it.

    :param secrets: names of those that the tasks carry
    :raises ConfigError: a master or a setting that cannot be
    :raises Refused: fewer slots than tasks, or secrets that would travel in clear text
    :raises Failed: the master does not answer
    """
    master = choose_master(url, tasks)
    refuse_unfit(master, conf)
    refuse_clear_text(master, conf, secrets)
    route = find_route(master)
    return SparkPlan(master, route, tasks, conf, workers_python(master, route, conf))


@contextmanager
def spark_session(
    name: str,
    plan: SparkPlan | int,
    *,
    stop: threading.Event | None = None,
    java_options: str | None = None,
    meanwhile: Callable[[SharedSpark], None] = lambda _workshop: None,
) -> Iterator[SharedSpark]:
    """A Spark session; stopped and cleaned up at the end.

    :param plan: where and how; a number: tasks at once on this machine
    :param stop: while a cluster's master and workers are waited for, ends that
    :param java_options: for the driver's JVM, instead of those that make it use the archive of classes
    :param meanwhile: begins what can be done while Spark starts, and returns at once
    :raises ConfigError: no usable Java, or Spark does not start, or a worker cannot run drkit
    :raises Refused: no slot
    :raises Failed: the cluster has ended the application
    """
    if isinstance(plan, int):
        plan = plan_spark(None, plan)
    stop = stop or threading.Event()
    _end_unfit_jvm(plan.master)
    jvm, options = _jvm_for(plan, java_options)
    folder = jvm.folder if jvm is not None else make_folder()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        archive = None if plan.master.is_local else make_archive(folder)
        workshop = SharedSpark(folder, carrier(archive)) if archive is not None else SharedSpark(folder)
        meanwhile(workshop)
        if archive is None:
            context = _start(name, plan, folder, options, jvm=jvm)
            stack.callback(_stop, context)
        else:
            with _end_jvm_on(stop, plan.master.url):
                context = _start(name, plan, folder, options, archive.name)
                stack.callback(_stop, context)
                context.addPyFile(str(archive))
                stack.enter_context(ready_cluster(workshop, context, plan.master.url, plan.tasks, stop))
        workshop.started(context)
        yield workshop


def _stop(context: SparkContext) -> None:
    # A signal to the process group has ended Spark's JVM, too: there is nothing left to stop.
    with suppress(Py4JError, ConnectionError):
        context.stop()


def _start(
    name: str,
    plan: SparkPlan,
    folder: Path,
    java_options: str,
    shipped: str = "",
    *,
    jvm: SparkJvm | None = None,
) -> SparkContext:
    prepare_environment(plan.python)
    defaults = {
        "spark.driver.memory": MEMORY,
        "spark.local.dir": str(folder / "local"),
        "spark.driver.extraJavaOptions": jvm_options(folder, java_options),
    }
    if plan.master.is_local:
        defaults |= socket_settings(folder)
    settings = defaults | spark_settings(plan.master, plan.route, plan.tasks, plan.conf, shipped)
    settings |= {"spark.master": plan.master.url, "spark.app.name": name}
    silence_py4j()
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        gateway = _gateway(_conf(may_be_seen(settings)), folder, jvm)
        context = SparkContext(conf=_conf(settings), gateway=gateway)
        if not is_encrypted(plan.master, plan.conf):
            observe.event("spark_in_clear_text", level="warning", master=plan.master.url)
        _silence_accumulator_server(context)
    # While it starts, Spark has its own handler of Ctrl-C, which raises this.
    except KeyboardInterrupt:
        if callable(interrupt):
            interrupt(signal.SIGINT, None)
        raise Failed("spark_start_interrupted", where=plan.master.url) from None
    # pyspark raises plain RuntimeError and Py4J errors for a JVM that does not come up.
    except Exception as error:
        raise ConfigError(
            "spark_does_not_start", where=plan.master.url, evidence=evidence_of(error)
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            # Spark takes Ctrl-C to cancel its jobs; here it ends a flow in good order.
            signal.signal(signal.SIGINT, interrupt)
    return context


def _conf(settings: Mapping[str, str]) -> SparkConf:
    return SparkConf().setAll(list(settings.items()))


@contextmanager
def _end_jvm_on(stop: threading.Event, url: str) -> Iterator[None]:
    """End Spark's JVM if `stop` is set meanwhile: it waits a minute for a master that does not answer."""
    has_started = threading.Event()

    def watch() -> None:
        while not has_started.wait(_STOP_POLL_SECONDS):
            process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  the only way to its process
            if stop.is_set() and process is not None:
                observe.event("stopped_while_spark_starts", master=url)
                process.kill()
                return

    thread = threading.Thread(target=watch, name="stop of the start", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_started.set()
        thread.join()


def silence_py4j() -> None:
    """Silence Py4J, which logs a traceback for each call to a dead JVM when Spark ends.

    drkit reports the end of a job. Py4J writes partly to its own logger, partly to the root logger.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: "py4j" not in Path(record.pathname).parts)


def _silence_accumulator_server(context: SparkContext) -> None:
    """Spark's server for accumulators prints a traceback when the JVM ends first, as by a signal to both."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda _request, _client: None


def _gateway(conf: SparkConf, folder: Path, jvm: SparkJvm | None) -> JavaGateway | None:
    """Reach Spark's JVM, or start it by Spark's scripts. None where an earlier session has left one.

    :param conf: what may be visible in a list of processes; the rest reaches the JVM by its gateway
    """
    if SparkContext._gateway is not None:  # noqa: SLF001  pyspark keeps the JVM for as long as the process lives
        return None
    if jvm is None:
        with open_log(folder) as file:
            # A session of its own: drkit handles a signal to its process group, and ends Spark itself.
            return launch_gateway(conf, {"stderr": file, "start_new_session": True})  # type: ignore[no-untyped-call]
    port, secret = jvm.address()
    gateway_environment = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(gateway_environment)
    try:
        gateway: JavaGateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
    finally:
        for name in gateway_environment:
            del os.environ[name]
    gateway.proc = jvm.process
    return gateway


def _jvm_for(plan: SparkPlan, given: str | None) -> tuple[SparkJvm | None, str]:
    """A starting JVM, and Java's options for one that Spark's scripts start.

    None where they start it, or where an earlier session has left one.
    """
    early = take_early()
    by_itself = plan.master.is_local and not any(key.startswith("spark.driver.") for key in plan.conf)
    if early is not None and given is None and by_itself:
        return early, ""
    if early is not None:
        early.end()
    java = _require_java()
    is_free = SparkContext._gateway is None  # noqa: SLF001  as below
    jvm = launched(java, given) if by_itself and is_free else None
    return jvm, archive_option(java) if given is None and jvm is None else given or ""


def _end_unfit_jvm(master: Master) -> None:
    """Forget the JVM of an earlier session where another one cannot use it."""
    running: JavaGateway | None = SparkContext._gateway  # noqa: SLF001  as above
    if running is None:
        return
    process: subprocess.Popen[bytes] = running.proc
    if process.poll() is None and (master.is_local or not _remembers_a_secret(running)):
        return
    with suppress(Py4JError, OSError):
        running.shutdown()
    process.kill()
    process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  the next session starts another
    SparkContext._active_spark_context = None  # noqa: SLF001  it stays where Spark was killed


def _remembers_a_secret(running: JavaGateway) -> bool:
    """Whether Spark made a secret in this JVM, which it prefers to the one that it shares with a cluster."""
    user = running.jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    return bool(user.getCredentials().numberOfSecretKeys())


def _require_java() -> Path:
    try:
        return find_java()
    except ConfigError as error:
        raise ConfigError(
            "spark_java_missing", where=error.where, evidence=error.evidence or error.what, hint=error.hint
        ) from error
