"""An Iceberg REST catalog for tests, in a separate process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.jvm.jars import ensure_jars, spark_jars
from headwater.jvm.java import find_java
from headwater.settings import Settings

_SOURCE = Path(__file__).parent / "IcebergRestService.java"
_SECONDS = 60


@contextmanager
def iceberg_rest_service(settings: Settings, folder: Path) -> Iterator[str]:
    """Run the service; yields its address. Tables are in `folder`; the token is `for-tests`."""
    java = str(find_java(settings).binary)
    (compiler,) = ensure_jars(["compiler"], settings)
    class_path = os.pathsep.join(map(str, [*ensure_jars(["iceberg"], settings), *spark_jars()]))
    classes = folder / "classes"
    compile_command = [java, "-jar", str(compiler), "-17", "-nowarn", "-cp", class_path]
    subprocess.run(
        [*compile_command, "-d", str(classes), str(_SOURCE)], check=True, timeout=_SECONDS
    )
    command = [java, "-cp", f"{classes}{os.pathsep}{class_path}", _SOURCE.stem]
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
