"""The Helm chart: rendered by Helm, and validated by the schemas of Kubernetes."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.deploy.files import CHART, helm, of_kind, rendered

from headwater import __version__
from headwater.catalog.api.guard import RULES, Role
from headwater.settings import WELL_KNOWN, load

MINIMAL: dict[str, Any] = {"database": {"existingSecret": "db"}}
COMPLETE: dict[str, Any] = {
    "replicaCount": 3,
    "database": {"existingSecret": "db", "key": "dsn", "port": 6432},
    "image": {"repository": "registry.example/lineage", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": ["registry"],
    "kafka": {"bootstrapServers": "kafka.data:9093", "port": 9093},
    "settings": {"HEADWATER_CATALOG__RETENTION_DAYS": "90"},
    "envFrom": [{"secretRef": {"name": "channels"}}],
    "tls": {"existingSecret": "certificate"},
    "alerts": {"rules": "alerts:\n  - name: failed\n    condition: failed_runs > 0\n"},
    "drainSeconds": 20,
    "networkPolicy": {"extraEgress": [{"ports": [{"protocol": "TCP", "port": 443}]}]},
    "serviceMonitor": {"enabled": True, "existingSecret": "scrape", "labels": {"team": "data"}},
    "podLabels": {"team": "data"},
    "podAnnotations": {"example.com/owner": "data"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
# The oldest that the chart names, and the newest that the package knows.
OLDEST = re.search(r"^kubeVersion: .*?(\d+\.\d+)", (CHART / "Chart.yaml").read_text(), re.MULTILINE)
VERSIONS = [OLDEST[1] if OLDEST else "", kubernetes_validate.latest_version()]
BUILT_IN = {
    "ConfigMap",
    "Deployment",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Service",
    "ServiceAccount",
}
SETTING = re.compile(r"(HEADWATER|KAFKA)_")


@pytest.fixture(scope="module", params=["minimal", "complete"])
def manifests(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    values = MINIMAL if request.param == "minimal" else COMPLETE
    return rendered(tmp_path_factory.mktemp("values"), values)


def container_of(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    (container,) = of_kind(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(container)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid_for_kubernetes(
    manifests: list[dict[str, Any]], version: str
) -> None:
    kinds = {each["kind"] for each in manifests}
    assert kinds - {"ServiceMonitor"} >= BUILT_IN - {"ConfigMap"}
    for each in manifests:
        if each["kind"] in BUILT_IN:
            kubernetes_validate.validate(each, version, strict=True)


def test_a_manifest_with_an_unknown_field_is_not_valid(manifests: list[dict[str, Any]]) -> None:
    broken = copy.deepcopy(of_kind(manifests, "Deployment"))
    broken["spec"]["template"]["spec"]["runAsNonRoot"] = True
    with pytest.raises(kubernetes_validate.ValidationError, match="runAsNonRoot"):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("values", [MINIMAL, COMPLETE], ids=["minimal", "complete"])
def test_the_linter_of_helm_finds_nothing(values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = helm("lint", "--strict", "--quiet", str(CHART), "--values", str(file))
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "existingSecret"),
        ({**MINIMAL, "replicas": 3}, "replicas"),
        ({**MINIMAL, "image": {"tag": "latest"}}, "image.tag"),
        ({**MINIMAL, "settings": {"PASSWORD": "x"}}, "PASSWORD"),
        ({**MINIMAL, "serviceMonitor": {"enabled": True}}, "serviceMonitor.existingSecret"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], problem: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = helm("template", "demo", str(CHART), "--values", str(file))
    assert done.returncode != 0
    assert problem in done.stderr


def test_pods_have_no_privileges_and_a_read_only_root(manifests: list[dict[str, Any]]) -> None:
    pod = of_kind(manifests, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert container_of(manifests)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_probes_use_routes_that_need_no_key(manifests: list[dict[str, Any]]) -> None:
    container = container_of(manifests)
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"]
        for name in ("startup", "liveness", "readiness")
    }
    assert paths["readiness"] == "/api/v1/health/ready"
    # A restart helps neither if the database is down, nor during a migration that takes long.
    assert paths["liveness"] == paths["startup"] == "/api/v1/health/live"
    assert {RULES["GET", path] for path in paths.values()} == {Role.OPEN}


def test_the_pod_may_take_longer_to_stop_than_the_service_needs(
    manifests: list[dict[str, Any]],
) -> None:
    pod = of_kind(manifests, "Deployment")["spec"]["template"]["spec"]
    (drain,) = [
        int(each["value"])
        for each in container_of(manifests)["env"]
        if each["name"] == "HEADWATER_CATALOG__DRAIN_SECONDS"
    ]
    assert pod["terminationGracePeriodSeconds"] == drain + 30


def test_variables_are_settings_and_secrets_are_references(
    manifests: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {each["name"]: each for each in container_of(manifests)["env"]}
    url = variables.pop("HEADWATER_CATALOG__DATABASE_URL")
    assert url["valueFrom"]["secretKeyRef"]["name"] == "db"
    assert "value" not in url
    for name, each in variables.items():
        assert SETTING.match(name)
        assert name.startswith("HEADWATER_") or name in WELL_KNOWN
        monkeypatch.setenv(name, each["value"])
    assert load().catalog.drain_seconds >= 10
    assert "Secret" not in {each["kind"] for each in manifests}


def test_names_ports_and_labels_refer_to_each_other(manifests: list[dict[str, Any]]) -> None:
    deployment, service = of_kind(manifests, "Deployment"), of_kind(manifests, "Service")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        of_kind(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    ports = {port["name"]: port["containerPort"] for port in container_of(manifests)["ports"]}
    catalog = load().catalog
    assert ports == {"api": catalog.port, "page": catalog.page_port}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == set(ports)
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert account == of_kind(manifests, "ServiceAccount")["metadata"]["name"]


def test_two_replicas_by_default_and_one_remains_during_a_drain_of_nodes(tmp_path: Path) -> None:
    found = rendered(tmp_path, MINIMAL)
    deployment = of_kind(found, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert of_kind(found, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert container_of(found)["image"] == f"headwater-service:{__version__}"


def test_the_network_policy_allows_only_what_the_service_needs(tmp_path: Path) -> None:
    policy = of_kind(rendered(tmp_path, COMPLETE), "NetworkPolicy")["spec"]
    egress = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    assert egress == [53, 53, 6432, 9093, 443]
    (ingress,) = policy["ingress"]
    assert ingress["from"] == [{"podSelector": {}}]
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_prometheus_scrapes_with_a_key_over_the_scheme_of_the_service(tmp_path: Path) -> None:
    monitor = of_kind(rendered(tmp_path, COMPLETE), "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == ("api", "/metrics", "https")
    assert endpoint["authorization"]["credentials"] == {"name": "scrape", "key": "api-key"}
    assert ("GET", "/metrics") in RULES


def described(schema: dict[str, Any], path: str = "") -> set[str]:
    """The values that the schema knows."""
    found: set[str] = set()
    for name, each in schema.get("properties", {}).items():
        found |= described(each, f"{path}.{name}") if "properties" in each else {f"{path}.{name}"}
    return found


def test_every_value_has_a_comment_and_a_type() -> None:
    text = (CHART / "values.yaml").read_text()
    found, parent, commented = set(), "", False
    for line in text.splitlines():
        match = re.match(r"( *)([A-Za-z]+):(.*)", line)
        if match and len(match[1]) <= 2:
            nested = bool(match[1])
            path = f"{parent}.{match[2]}" if nested else f".{match[2]}"
            is_group = not nested and not match[3] and match[2] != "resources"
            parent = path if not nested else parent
            if not is_group and not path.startswith(".resources."):
                assert commented, f"{path} has no comment"
                found.add(path)
        commented = line.lstrip().startswith("#")
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert found == described(schema) - {".global"}


def test_the_chart_has_the_version_of_headwater() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
