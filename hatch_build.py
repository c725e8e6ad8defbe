"""Builds the jars of the Java project (`java/`) and adds them, with their checksums, to the wheel.

There is one for each line of Spark. The compiler, the connectors and Spark's own jars are pinned,
and come from the jar cache or are fetched. An editable install has no jars: that of the line which
is there is compiled when it is needed.
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
        from headwater.jvm.jars import own_jar_name
        from headwater.jvm.versions import SPARK_LINES
        from headwater.settings import load

        self._folder = tempfile.TemporaryDirectory(prefix="headwater-jar-")
        jars = {line: Path(self._folder.name) / own_jar_name(line) for line in SPARK_LINES}
        try:
            for line, jar in jars.items():
                build_jar(root / "java", jar, line, load())
        except HeadwaterError as error:
            hint = f" (hint: {error.hint})" if error.hint else ""
            raise RuntimeError(f"{jar.name} can't be built: {error.message}{hint}") from None
        finally:
            sys.path.remove(str(root / "src"))
        for jar in jars.values():
            for path in (jar, checksum_file(jar)):
                build_data["force_include"][str(path)] = f"headwater/jvm/own/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            self._folder.cleanup()
