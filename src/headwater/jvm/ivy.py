"""Fetches jars with Spark's Ivy, so that no build tool has to be installed.

Spark has this only as a Scala API; it is called through py4j in a JVM without a Spark context. Ivy
uses the repositories that are configured on this machine.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headwater.errors import DownloadError, NotInstalledError
from headwater.jvm.java import find_java, java_home_for_spark
from headwater.settings import Settings, default_ca_file, exported

# Called with the number of fetched jars and the total.
JarCount = Callable[[int, int], None]
_POLL_SECONDS = 0.2


def resolve(
    coordinates: Sequence[str],
    folder: Path,
    settings: Settings,
    *,
    transitive: bool,
    excludes: Sequence[str] = (),
    progress: JarCount = lambda done, total: None,
) -> list[Path]:
    """Fetch `coordinates` into `folder`; returns the paths of the jars.

    Blocks for at most `jvm.download_timeout_seconds`.

    Raises:
        DownloadError: a coordinate was not found, or the timeout expired.
    """
    gateway = _start_gateway(settings, folder)
    outcome: list[list[Path] | BaseException] = []
    reasons: list[str] = []

    def work() -> None:
        try:
            _trust_python_certificates(gateway.jvm)
            outcome.append(_resolve(gateway, coordinates, folder, settings, transitive, excludes))
        except BaseException as error:  # raised in the caller's thread
            # Now, because the JVM, which has the message, ends before that.
            reasons.append(_reason(error))
            outcome.append(error)

    thread = threading.Thread(target=work, name="ivy", daemon=True)
    try:
        thread.start()
        _wait(thread, folder, len(coordinates), settings, progress)
    finally:
        _end(gateway)
    return _result(outcome, reasons, coordinates, folder, settings)


def _wait(
    thread: threading.Thread, folder: Path, total: int, settings: Settings, progress: JarCount
) -> None:
    for _ in range(int(settings.jvm.download_timeout_seconds / _POLL_SECONDS)):
        thread.join(_POLL_SECONDS)
        # Ivy does not report progress; the number of jars in its cache shows it.
        progress(min(total, sum(1 for _ in folder.glob("cache/*/*/jars/*.jar"))), total)
        if not thread.is_alive():
            return


def _result(
    outcome: list[list[Path] | BaseException],
    reasons: list[str],
    coordinates: Sequence[str],
    folder: Path,
    settings: Settings,
) -> list[Path]:
    result = outcome[0] if outcome else None
    if isinstance(result, list):
        return result
    what = f"could not fetch {len(coordinates)} jars, {coordinates[0]} first"
    if result is None:
        raise DownloadError(
            f"{what}: not finished after {settings.jvm.download_timeout_seconds:g} s",
            hint="check the network, or raise HEADWATER_JVM__DOWNLOAD_TIMEOUT_SECONDS",
        )
    raise DownloadError(
        f"{what}: {reasons[0]}{_first_problem(folder)}",
        hint="for a proxy or a mirror, set HEADWATER_JVM__IVY_SETTINGS to an Ivy settings file",
    ) from None


def _reason(error: BaseException) -> str:
    java_error = getattr(error, "java_exception", None)
    return str(error if java_error is None else java_error.getMessage())


def _first_problem(folder: Path) -> str:
    log = folder / "ivy.log"
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    problems = [line.strip() for line in lines if "ERROR" in line or "not found" in line.lower()]
    return f" ({problems[0]})" if problems else ""


def _start_gateway(settings: Settings, folder: Path) -> Any:
    try:
        from pyspark.java_gateway import launch_gateway
    except ImportError:
        raise NotInstalledError(
            "fetching jars needs pyspark, which is not installed",
            hint="pip install 'headwater[spark]'",
        ) from None
    java_home = java_home_for_spark(find_java(settings), settings)
    with (
        exported(JAVA_HOME=str(java_home), PYSPARK_SUBMIT_ARGS="pyspark-shell"),
        (folder / "jvm.log").open("wb") as log,
    ):
        popen = {"stdout": log, "stderr": log}
        return launch_gateway(popen_kwargs=popen)


def _end(gateway: Any) -> None:
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM exits when its standard input is closed
    try:
        gateway.proc.wait(timeout=5)
    except Exception:
        gateway.proc.kill()
        gateway.proc.wait(timeout=5)


def _resolve(
    gateway: Any,
    coordinates: Sequence[str],
    folder: Path,
    settings: Settings,
    transitive: bool,
    excludes: Sequence[str],
) -> list[Path]:
    jvm = gateway.jvm
    maven = jvm.org.apache.spark.util.MavenUtils
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    option = jvm.scala.Option.apply
    excluded = jvm.java.util.ArrayList()
    for exclude in excludes:
        excluded.add(exclude)
    log = jvm.java.io.PrintStream(str(folder / "ivy.log"))
    if settings.jvm.ivy_settings is None:
        ivy = maven.buildIvySettings(option(None), option(str(folder)), True, log)
    else:
        file = str(settings.jvm.ivy_settings)
        ivy = maven.loadIvySettings(file, option(None), option(str(folder)), log)
    jars = maven.resolveMavenCoordinates(
        ",".join(coordinates),
        ivy,
        option(None),
        transitive,
        convert.asScala(excluded).toSeq(),
        False,
        log,
    )
    return [Path(path) for path in convert.asJava(jars)]


def _trust_python_certificates(jvm: Any) -> None:
    """Make this JVM accept the certificates that pip accepts.

    A company's own certificate is usually in the system's bundle, and rarely in Java's.
    """
    bundle = default_ca_file() or ssl.get_default_verify_paths().cafile
    if not bundle or not Path(bundle).is_file():
        return
    java_security = jvm.java.security
    store = java_security.KeyStore.getInstance(java_security.KeyStore.getDefaultType())
    store.load(None, None)
    stream = jvm.java.io.FileInputStream(bundle)
    factory = java_security.cert.CertificateFactory.getInstance("X.509")
    for number, certificate in enumerate(factory.generateCertificates(stream)):
        store.setCertificateEntry(str(number), certificate)
    stream.close()
    tls = jvm.javax.net.ssl
    trust = tls.TrustManagerFactory.getInstance(tls.TrustManagerFactory.getDefaultAlgorithm())
    trust.init(store)
    context = tls.SSLContext.getInstance("TLS")
    context.init(None, trust.getTrustManagers(), None)
    tls.SSLContext.setDefault(context)
    tls.HttpsURLConnection.setDefaultSSLSocketFactory(context.getSocketFactory())
