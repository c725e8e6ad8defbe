"""Builds the jar of the Java project (`java/`) and adds it, with its checksum, to the wheel.

The jar is compiled against the pinned connectors and pyspark's jars: the compiler and the
connectors come from the jar cache, or are fetched. An editable install has no jar: it is compiled
when it is needed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarBuildHook(BuildHookInterface[Any]):
    """Called by hatchling for wheels."""

    PLUGIN_NAME = "custom"

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        # The package itself is not installed in the environment of the build.
        sys.path.insert(0, str(root / "src"))
        from headwater.errors import HeadwaterError
        from headwater.jvm.compiler import build_jar, checksum_file
        from headwater.jvm.jars import JAR_NAME
        from headwater.settings import load

        self._folder = tempfile.TemporaryDirectory(prefix="headwater-jar-")
        jar = Path(self._folder.name) / JAR_NAME
        try:
            build_jar(root / "java", jar, load())
        except HeadwaterError as error:
            hint = f" (hint: {error.hint})" if error.hint else ""
            raise RuntimeError(f"{JAR_NAME} can't be built: {error.message}{hint}") from None
        finally:
            sys.path.remove(str(root / "src"))
        for path in (jar, checksum_file(jar)):
            build_data["force_include"][str(path)] = f"headwater/jvm/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            self._folder.cleanup()
