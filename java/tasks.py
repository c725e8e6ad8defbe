"""Tasks of the Java project, with pinned tools: `python java/tasks.py TASK`.

`compile` compiles it for every line of Spark, `test` also runs its JUnit tests, on the Spark that
is there: another one with `SPARK_HOME`. `format` and `check-format` are about all sources.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.jvm.compiler import compile_java
from headwater.jvm.installed import find_java, installed_line
from headwater.jvm.jars import ensure_jars, own_jar, spark_jars
from headwater.jvm.versions import SPARK_LINES
from headwater.settings import Settings, load

PROJECT = Path(__file__).parent
_LOGGING = PROJECT.parent / "src/headwater/spark/log4j2.properties"
# As Spark's own scripts: it uses internal classes of Java.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
# The formatter uses the parser of the JDK's compiler.
_EXPORTED = ("api", "code", "file", "parser", "tree", "util")
_TEST_SECONDS = 300
_FORMAT_SECONDS = 120
_FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def compile_lines(settings: Settings) -> int:
    """Compile the project for every line."""
    for line in SPARK_LINES:
        own_jar(settings, line=line)
    print(f"compiled for Spark {', '.join(line.name for line in SPARK_LINES)}")
    return 0


def test(settings: Settings) -> int:
    """Compile the tests and run them with JUnit."""
    compile_lines(settings)
    print(f"testing on Spark {installed_line(settings).name}")
    jars = [own_jar(settings), *spark_jars(settings)]
    jars += ensure_jars(("kafka", "openlineage", "iceberg", "junit"), settings)
    sources = sorted((PROJECT / "src/test/java").rglob("*.java"))
    with tempfile.TemporaryDirectory(prefix="headwater-java-test-") as folder:
        classes = Path(folder) / "classes"
        compile_java(sources, jars, classes, settings)
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
        command = [str(find_java(settings).binary), *_FAST_START, *opened]
        command += [f"-Djava.io.tmpdir={folder}", "-Dheadwater.log.level=error"]
        command += [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
        command += ["-cp", os.pathsep.join(map(str, [classes, *jars]))]
        command += ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner"]
        command += [f"--scan-class-path={classes}", "--fail-if-no-tests", "--details=summary"]
        # Vectors are read from `tests/`.
        return subprocess.run(
            command, cwd=PROJECT.parent, timeout=_TEST_SECONDS, check=False
        ).returncode


def format_sources(settings: Settings, *, check: bool) -> int:
    """Format all sources, or only check them."""
    java = str(find_java(settings).binary)
    listed = subprocess.run(
        [java, "--list-modules"], capture_output=True, text=True, timeout=60, check=True
    )
    if "jdk.compiler@" not in listed.stdout:
        print(f"{java} is not of a JDK: the format of the Java sources is not checked")
        return 0
    jars = ensure_jars(("formatter",), settings)
    exported = [
        f"--add-exports=jdk.compiler/com.sun.tools.javac.{name}=ALL-UNNAMED" for name in _EXPORTED
    ]
    command = [java, *_FAST_START, *exported, "-cp", os.pathsep.join(map(str, jars))]
    command += ["com.google.googlejavaformat.java.Main"]
    command += ["--dry-run", "--set-exit-if-changed"] if check else ["--replace"]
    sources = sorted(PROJECT.rglob("*.java"))
    done = subprocess.run(
        [*command, *map(str, sources)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=_FORMAT_SECONDS,
        check=False,
    )
    for name in done.stdout.splitlines():
        print(f"{name}: not formatted; run `make format`")
    return done.returncode


_TASKS = {"compile": compile_lines, "test": test}


def main(task: str) -> int:
    settings = load()
    try:
        if task in _TASKS:
            return _TASKS[task](settings)
        return format_sources(settings, check=task == "check-format")
    except HeadwaterError as error:
        print(f"{error.message}\nhint: {error.hint}" if error.hint else error.message)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
