"""Headwater's own jar, and the class path of a session.

The wheel contains the jar and its checksum. In an editable install the jar is compiled once, from
the sources in `java/` of the repository, and stored in the jar cache; its name contains a digest of
the sources.
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
    """The path of Headwater's jar; compiles it in an editable install.

    Raises:
        DownloadError: the compiler can't be fetched.
        NotInstalledError: the installation has neither the jar nor its sources; or there is no
            Java to compile them.
    """
    jar = own_jar_path(settings)
    if not jar.is_file():
        project = _project()
        if project is None:
            raise NotInstalledError(
                f"this installation has no {jar}",
                hint="install the wheel again: pip install --force-reinstall --no-deps headwater",
            )
        build_jar(project, jar, settings, progress)
    return jar


def own_jar_path(settings: Settings) -> Path:
    """Where Headwater's jar is; in an editable install it may not be compiled yet."""
    shipped = _package() / "jvm" / JAR_NAME
    project = None if shipped.is_file() else _project()
    if project is None:
        return shipped
    return settings.jars_dir / f"headwater-{project_digest(project)}.jar"


def _project() -> Path | None:
    """The Java project, in an editable install."""
    project = _package().parents[1] / "java"
    return project if (project / "src").is_dir() else None


def _package() -> Path:
    return Path(str(resources.files("headwater")))
