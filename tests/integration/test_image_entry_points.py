"""The entry points of the images, run as a container would run them: another user, no capability,
every file system read-only, and only the variables of the image and the chart."""

from __future__ import annotations

import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.catalog_support import Catalog, bearer, fresh_database, run_event
from tests.deploy.files import DOCKERFILES, environment_of, of_kind, rendered, stages
from tests.other_user import OTHER_USER
from tests.sandbox import require_sandbox, restricted
from tests.support import java_of_spark
from tests.waiting import wait_until

from headwater.jvm.distribution import copy_jars
from headwater.jvm.jars import own_jar
from headwater.kafka import RecordProducer, end_offsets
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker
from headwater.testing.ports import free_port

SERVICE = stages(DOCKERFILES["service"].read_text())[-1]
VALUES: dict[str, Any] = {"database": {"existingSecret": "db"}, "drainSeconds": 1}


def words(instruction: str) -> list[str]:
    (found,) = [each for each in SERVICE if each.word == instruction]
    return found.words


def user() -> int:
    return int(words("USER")[0].partition(":")[0])


def chart_variables(folder: Path, database: str) -> dict[str, str]:
    """The variables of the chart, with the value of the Secret."""
    pod = of_kind(rendered(folder, VALUES), "Deployment")["spec"]["template"]["spec"]
    variables = {each["name"]: each.get("value", database) for each in pod["containers"][0]["env"]}
    assert list(variables.values()).count(database) == 1, "one secret"
    return variables


def variables(folder: Path, **others: str) -> dict[str, str]:
    image = environment_of(SERVICE)
    # The folders of the image do not exist here; `clean` is read-only as well.
    paths = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HEADWATER_HOME": str(folder)}
    return {**image, **paths, **others}


class Container:
    """A process with the entry point of the image."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.clean = folder / "clean"
        self.clean.mkdir()
        self.environment = environment
        self.log = folder / "log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                self._command([*words("ENTRYPOINT"), *words("CMD")]),
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self.clean,
            )

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the same way, as `docker exec` does."""
        return subprocess.run(
            self._command(command),
            env=self.environment,
            cwd=self.clean,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def _command(self, command: list[str] | tuple[str, ...]) -> list[str]:
        return restricted(command, user=user())

    def status(self, probe: str) -> int:
        port = self.environment["HEADWATER_CATALOG__PORT"]
        try:
            url = f"http://127.0.0.1:{port}/api/v1/health/{probe}"
            return requests.get(url, timeout=5).status_code
        except requests.ConnectionError:
            return 0


@contextmanager
def container(folder: Path, environment: dict[str, str]) -> Iterator[Container]:
    started = Container(folder, environment)
    try:
        wait_until(
            lambda: started.status("ready") == 200 or started.process.poll() is not None,
            60,
            "readiness",
            started.log.read_text,
            pause_seconds=0.2,
        )
        assert started.process.poll() is None, started.log.read_text()
        yield started
    finally:
        started.process.kill()
        started.process.wait(20)


def test_the_service_starts_stores_an_event_and_stops(postgres: str, tmp_path: Path) -> None:
    require_sandbox()
    database = fresh_database(postgres)
    environment = variables(
        tmp_path / "clean",
        HEADWATER_CATALOG__PORT=str(port := free_port()),
        HEADWATER_CATALOG__PAGE_PORT=str(free_port()),
        **chart_variables(tmp_path, database),
    )
    with container(tmp_path, environment) as service:
        health = next(each.text for each in SERVICE if each.word == "HEALTHCHECK")
        assert '["headwater", "probe", "live"]' in health
        assert service.run("headwater", "probe", "live").returncode == 0
        assert service.run("touch", "x").returncode != 0, "the file system can be written"
        created = service.run("headwater", "keys", "create", "jobs", "--role", "write")
        assert created.returncode == 0, created.stderr
        catalog = Catalog(port, database)
        # Outside of loopback, and in a container, keys are required.
        assert catalog.call("POST", "/lineage", json=run_event()).status_code == 401
        catalog.headers = bearer(created.stdout.strip())
        catalog.send(run_event(job="stored"))
        assert catalog.get("/jobs")["totalCount"] == 1
        page = requests.get(
            f"http://127.0.0.1:{environment['HEADWATER_CATALOG__PAGE_PORT']}/", timeout=5
        )
        assert page.status_code == 200
        service.process.terminate()
        wait_until(lambda: service.status("ready") == 503, 5, "the drain")
        assert service.process.wait(20) == 0
        failed = service.run("headwater", "probe", "ready")
        assert (failed.returncode, "is not ready" in failed.stderr) == (3, True)
    lines = service.log.read_text().splitlines()
    assert all(line.startswith("{") for line in lines), "logs are JSON"
    assert list(service.clean.iterdir()) == []


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_job_runs_with_the_jars_of_its_image_and_fetches_none(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """With Spark's own Python; only the home and the temporary folder can be written."""
    require_sandbox()
    source = make_topic("in")
    with RecordProducer(broker.kafka) as producer:
        for _ in range(3):
            producer.send(source, b"{}")
    folders = {name: tmp_path / name for name in ("jars", "home", "tmp")}
    for folder in folders.values():
        folder.mkdir()
    copy_jars(["kafka", "openlineage"], folders["jars"], broker)
    # An editable install looks for its own jar there; a wheel contains it.
    shutil.copy(own_jar(broker), folders["jars"])
    image = environment_of(stages(DOCKERFILES["job"].read_text())[-1])
    assert {"SPARK_HOME", "HEADWATER_JVM__JARS_DIR"} <= set(image)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HEADWATER_HOME": str(folders["home"]),
        "HEADWATER_JVM__JARS_DIR": str(folders["jars"]),
        "TMPDIR": str(folders["tmp"]),
        "SPARK_LOCAL_DIRS": str(folders["tmp"]),
        "_JAVA_OPTIONS": f"-Djava.io.tmpdir={folders['tmp']}",
        "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        **java_of_spark(broker),
    }
    options = ["--available-now", "--input-topic", source, "--output-topic", f"{source}-out"]
    command = ["headwater", "run", "visits_decorator_job", *options]
    # Hadoop needs an account of the id: the image has one for 185, every machine has this one.
    account = pwd.getpwnam(OTHER_USER).pw_uid
    done = subprocess.run(
        restricted(command, user=account, writable=[folders["home"], folders["tmp"]]),
        env=environment,
        cwd=folders["home"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(end_offsets(f"{source}-out", broker.kafka).values()) == 3
