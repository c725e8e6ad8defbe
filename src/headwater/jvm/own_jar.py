"""Headwater's own jar, and the class path of a session.

The wheel contains the jar. In an editable install it is compiled once from the sources in `java/`
of the repository and stored in the jar cache; its name contains a digest of the sources.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from headwater.errors import NotInstalledError
from headwater.jvm.compiler import build_jar, project_digest
from headwater.jvm.jars import ensure_jars
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

JAR_NAME = "headwater-spark.jar"


def session_jars(
    connectors: Iterable[str], settings: Settings, progress: Progress = no_progress
) -> list[Path]:
    """All jars of a session with these connectors, fetched or compiled on demand."""
    return [*ensure_jars(connectors, settings, progress), own_jar(settings, progress)]


def own_jar(settings: Settings, progress: Progress = no_progress) -> Path:
    """The path of Headwater's jar: that of the wheel, or the one compiled from the sources.

    Raises:
        DownloadError: the compiler can't be fetched.
        NotInstalledError: the installation has neither the jar nor its sources, or, to compile
            them, there is no Java.
    """
    package = Path(str(resources.files("headwater")))
    shipped = package / "jvm" / JAR_NAME
    if shipped.is_file():
        return shipped
    project = package.parents[1] / "java"
    if not (project / "src").is_dir():
        raise NotInstalledError(
            f"this installation has no {shipped}",
            hint="install the wheel again: pip install --force-reinstall --no-deps headwater",
        )
    jar = settings.jars_dir / f"headwater-{project_digest(project)}.jar"
    if not jar.is_file():
        build_jar(project, jar, settings, progress)
    return jar
