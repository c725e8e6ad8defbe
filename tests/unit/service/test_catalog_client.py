"""GET requests to the lineage service: limits, errors, and the key is not sent elsewhere."""

from __future__ import annotations

import pytest
from tests.fault_server import drip, serving, status

from headwater.errors import InputError, ServiceResponseError
from headwater.service.catalog_client import get_json
from headwater.settings import load


def test_the_key_does_not_follow_a_redirect() -> None:
    with serving(status(200, "{}")) as elsewhere:
        location = f"Location: {elsewhere.url}/api/v1/alerts"
        with serving(status(302, "", location)) as server:
            settings = load(catalog={"url": server.url, "api_key": "s3cr3t"})
            with pytest.raises(ServiceResponseError, match="responded with 302"):
                get_json(settings, "/api/v1/alerts")
    assert elsewhere.requests == 0


def test_large_responses_are_read_completely() -> None:
    with serving(status(200, f'["{"x" * 500_000}"]')) as server:
        assert len(get_json(load(catalog={"url": server.url}), "/api/v1/alerts")[0]) == 500_000


def test_errors_of_slow_wrong_and_protected_services_name_the_setting() -> None:
    with serving(drip, status(200, "<html>"), status(401)) as server:
        settings = load(catalog={"url": server.url})
        for _ in range(2):
            with pytest.raises(ServiceResponseError) as error:
                get_json(settings, "/api/v1/alerts", timeout_seconds=0.3)
            assert "MARQUEZ_URL" in str(error.value.hint)
        with pytest.raises(InputError, match="requires a key"):
            get_json(settings, "/api/v1/alerts")
    with pytest.raises(InputError, match="MARQUEZ_URL"):
        get_json(load(catalog={"url": "http://a..b"}), "/api/v1/alerts")
