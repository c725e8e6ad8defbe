"""An Iceberg REST catalog for tests, in a separate process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.jvm.compiler import compile_java
from headwater.jvm.installed import find_java
from headwater.jvm.jars import ensure_jars, spark_jars
from headwater.settings import Settings

_CLASS = "dev.headwater.IcebergRestService"
_SOURCE = Path(__file__).parents[1] / f"java/src/test/java/{_CLASS.replace('.', '/')}.java"


@contextmanager
def iceberg_rest_service(settings: Settings, folder: Path) -> Iterator[str]:
    """Run the service; yields its address. Tables are in `folder`; the token is `for-tests`."""
    java = str(find_java(settings).binary)
    jars = [*ensure_jars(["iceberg"], settings), *spark_jars(settings)]
    classes = folder / "classes"
    compile_java([_SOURCE], jars, classes, settings)
    command = [java, "-cp", os.pathsep.join(map(str, [classes, *jars])), _CLASS]
    with subprocess.Popen(
        [*command, f"file://{folder}/tables"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as service:
        assert service.stdout is not None
        try:
            port = service.stdout.readline().strip()
            assert port, "the service did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            service.kill()
