"""Fetches jars with the Ivy that is among Spark's jars, so that no build tool has to be installed.

It is called through py4j in a JVM without a Spark context: Ivy's own classes, which are the same in
every Spark. Spark's function around them has another name in 3.5, and never returns Spark's jars.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headwater.errors import DownloadError, NotInstalledError
from headwater.jvm.installed import find_java, java_home_for_spark
from headwater.settings import Settings, default_ca_file, exported

# Called with the number of fetched jars and the total.
JarCount = Callable[[int, int], None]
_POLL_SECONDS = 0.2
_CONFIGURATION = "default"


def resolve(
    coordinates: Sequence[str],
    folder: Path,
    settings: Settings,
    *,
    transitive: bool,
    excludes: Sequence[str] = (),
    progress: JarCount = lambda done, total: None,
) -> dict[str, Path]:
    """Fetch `coordinates` into `folder`; returns the jars by their coordinates.

    Blocks for at most `jvm.download_timeout_seconds`.

    Raises:
        DownloadError: a coordinate was not found, or the timeout expired.
    """
    gateway = _start_gateway(settings, folder)
    outcome: list[dict[str, Path] | BaseException] = []
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
    return _result(outcome, reasons, coordinates, settings)


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
    outcome: list[dict[str, Path] | BaseException],
    reasons: list[str],
    coordinates: Sequence[str],
    settings: Settings,
) -> dict[str, Path]:
    result = outcome[0] if outcome else None
    if isinstance(result, dict):
        return result
    what = f"could not fetch {len(coordinates)} jars, {coordinates[0]} first"
    if result is None:
        raise DownloadError(
            f"{what}: not finished after {settings.jvm.download_timeout_seconds:g} s",
            hint="check the network, or raise HEADWATER_JVM__DOWNLOAD_TIMEOUT_SECONDS",
        )
    raise DownloadError(
        f"{what}: {reasons[0]}",
        hint="for a proxy or a mirror, set HEADWATER_JVM__IVY_SETTINGS to an Ivy settings file",
    ) from None


def _reason(error: BaseException) -> str:
    java_error = getattr(error, "java_exception", None)
    return str(error if java_error is None else java_error.getMessage())


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
) -> dict[str, Path]:
    jvm = gateway.jvm
    core = jvm.org.apache.ivy.core
    ivy = _configured(jvm, folder, settings)
    names = core.module.id.ModuleRevisionId
    wanted = core.module.descriptor.DefaultModuleDescriptor.newDefaultInstance(
        names.newInstance("dev.headwater", "jars", "1")
    )
    for coordinate in coordinates:
        dependency = core.module.descriptor.DefaultDependencyDescriptor(
            wanted, names.newInstance(*coordinate.split(":")), False, False, True
        )
        dependency.addDependencyConfiguration(_CONFIGURATION, f"{_CONFIGURATION}(runtime)")
        wanted.addDependency(dependency)
    for exclude in excludes:
        module = core.module.id.ModuleId(*exclude.split(":"))
        rule = core.module.descriptor.DefaultExcludeRule(
            core.module.id.ArtifactId(module, "*", "*", "*"),
            ivy.getSettings().getMatcher("glob"),
            None,
        )
        rule.addConfiguration(_CONFIGURATION)
        wanted.addExcludeRule(rule)
    options = core.resolve.ResolveOptions()
    options.setTransitive(transitive)
    confs = gateway.new_array(jvm.java.lang.String, 1)
    confs[0] = _CONFIGURATION
    options.setConfs(confs)
    report = ivy.resolve(wanted, options)
    if report.hasError():
        raise DownloadError("; ".join(str(text) for text in report.getAllProblemMessages()))
    return {
        _coordinate(found.getArtifact().getModuleRevisionId()): Path(found.getLocalFile().getPath())
        for found in report.getAllArtifactsReports()
        if found.getExt() == "jar"
    }


def _configured(jvm: Any, folder: Path, settings: Settings) -> Any:
    ivy_settings = jvm.org.apache.ivy.core.settings.IvySettings()
    if settings.jvm.ivy_settings is not None:
        ivy_settings.load(jvm.java.io.File(str(settings.jvm.ivy_settings)))
    else:
        resolver = jvm.org.apache.ivy.plugins.resolver.IBiblioResolver()
        resolver.setName("repository")
        resolver.setM2compatible(True)
        # As in Spark. Without it, Ivy uses its own default.
        root = jvm.java.lang.System.getenv("DEFAULT_ARTIFACT_REPOSITORY")
        if root:
            resolver.setRoot(root)
        ivy_settings.addResolver(resolver)
        ivy_settings.setDefaultResolver(resolver.getName())
    ivy_settings.setDefaultIvyUserDir(jvm.java.io.File(str(folder)))
    ivy_settings.setDefaultCache(jvm.java.io.File(str(folder / "cache")))
    return jvm.org.apache.ivy.Ivy.newInstance(ivy_settings)


def _coordinate(name: Any) -> str:
    return f"{name.getOrganisation()}:{name.getName()}:{name.getRevision()}"


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
