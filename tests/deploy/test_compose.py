"""The compose file, and the examples for operators of Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.deploy.files import DEPLOY, DOCKERFILES, ROOT, environment_of, stages

from headwater import __version__
from headwater.cli.app import COMMANDS
from headwater.jobs.visits_decorator_job import main as job
from headwater.jvm.versions import KAFKA_VERSION, SPARK_LINES
from headwater.settings import WELL_KNOWN, Settings, load

TEXT = (DEPLOY / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
# Keys of a service in the Compose specification that this file uses: a mistyped one is not here.
KEYS = {
    *("image", "build", "command", "environment", "ports", "volumes", "healthcheck", "profiles"),
    *("depends_on", "restart", "stop_grace_period", "tmpfs", "read_only", "cap_drop", "init"),
    "security_opt",
}
OWN = [name for name, service in SERVICES.items() if "build" in service]
each_operator = pytest.mark.parametrize("operator", ["apache", "kubeflow"])


def test_services_have_known_keys_and_images_with_the_tag_of_a_version() -> None:
    assert set(SERVICES) == {"kafka", "postgres", "lineage", "job"}
    for name, service in SERVICES.items():
        assert set(service) <= KEYS, name
        assert re.search(r":\d+\.\d+", service["image"]), service["image"]
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert [SERVICES[name]["image"].partition(":")[2] for name in OWN] == [__version__] * 2


def test_services_refer_to_services_volumes_and_files_that_exist() -> None:
    volumes = set(yaml.safe_load(TEXT)["volumes"])
    for service in SERVICES.values():
        for other in service.get("depends_on", {}):
            assert "healthcheck" in SERVICES[other]
        used = {volume.partition(":")[0] for volume in service.get("volumes", [])}
        assert used <= volumes
        if "build" in service:
            context = (DEPLOY / service["build"]["context"]).resolve()
            assert context == ROOT
            assert (context / service["build"]["dockerfile"]).is_file()


def test_passwords_are_variables_of_the_example_file_without_a_value() -> None:
    example = (DEPLOY / "env.example").read_text()
    variables = set(re.findall(r"\$\{(\w+)", TEXT))
    assert variables == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))
    secrets = re.findall(r"^\s*\w*(?:PASSWORD|KEY|DATABASE_URL)\w*: (.*)$", TEXT, re.MULTILINE)
    assert len(secrets) == 3
    assert all("${" in value for value in secrets)
    assert "deploy/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_only_this_machine_can_connect() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == 3
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("name", OWN)
def test_own_containers_have_a_read_only_root_and_valid_settings(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    for variable, value in service["environment"].items():
        assert variable.startswith("HEADWATER_") or variable in WELL_KNOWN
        monkeypatch.setenv(variable, value)
    assert load().bootstrap_servers == "kafka:19092"


def test_commands_exist() -> None:
    assert SERVICES["lineage"]["healthcheck"]["test"] == ["CMD", "headwater", "probe", "ready"]
    program, command, name = SERVICES["job"]["command"]
    assert (program, command in COMMANDS) == ("headwater", True)
    assert (ROOT / f"src/headwater/jobs/{name}.py").is_file()


def test_a_job_has_more_time_to_stop_than_its_micro_batch() -> None:
    needed = Settings().spark.stop_timeout_seconds
    assert float(SERVICES["job"]["stop_grace_period"].removesuffix("s")) > needed
    for operator in ("apache", "kubeflow"):
        (found,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", operator_text(operator))
        assert float(found) > needed


def operator_text(operator: str) -> str:
    return (DEPLOY / f"spark-operator/{operator}.yaml").read_text()


@each_operator
def test_the_examples_for_operators_run_a_shipped_job_with_valid_options(operator: str) -> None:
    text = operator_text(operator)
    spec = yaml.safe_load(text)["spec"]
    file = spec["pyFiles"] if operator == "apache" else spec["mainApplicationFile"]
    options = spec["driverArgs"] if operator == "apache" else spec["arguments"]
    assert (ROOT / "src/headwater/jobs" / Path(file).name).is_file()
    assert "ln -s" in DOCKERFILES["job"].read_text()
    assert file.startswith("local:///opt/headwater/jobs/")
    job.make_context("job", list(options))
    assert f"headwater-job:{__version__}" in text
    (version,) = re.findall(r'sparkVersion: "(.+)"', text)
    assert version in {line.pyspark for line in SPARK_LINES}


@each_operator
def test_drivers_have_a_volume_for_their_home_and_a_key_by_reference(operator: str) -> None:
    spec = yaml.safe_load(operator_text(operator))["spec"]
    if operator == "apache":
        pod = spec["driverSpec"]["podTemplateSpec"]["spec"]
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}, "spec": pod}
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
        driver, volumes = pod["containers"][0], pod["volumes"]
    else:
        driver, volumes = spec["driver"], spec["volumes"]
    home = environment_of(stages(DOCKERFILES["job"].read_text())[-1])["HEADWATER_HOME"]
    assert {each["mountPath"]: each["name"] for each in driver["volumeMounts"]} == {home: "home"}
    assert [volume["name"] for volume in volumes] == ["home"]
    variables = {each["name"]: each for each in driver["env"]}
    assert set(variables) <= set(WELL_KNOWN)
    assert "secretKeyRef" in variables["MARQUEZ_API_KEY"]["valueFrom"]


def test_the_commands_of_the_readme_exist() -> None:
    text = (DEPLOY / "README.md").read_text()
    used = re.findall(r"docker compose run --rm (?:lineage|job headwater) (.+)", text)
    assert len(used) >= 2
    assert [line for line in used if line.split()[0] not in COMMANDS] == []
