"""OIDC tokens: only those of the issuer, for this service, signed with a current key."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.catalog_support import Catalog, bearer, fresh_database, guarded, run_event, running

from headwater.catalog.api.guard import Guard
from headwater.catalog.api.oidc import TokenChecker
from headwater.catalog.store import migrate
from headwater.catalog.store.keys import create_key
from headwater.errors import SettingError
from headwater.settings import Settings, load


@pytest.fixture(scope="module")
def database(postgres: str) -> str:
    found = fresh_database(postgres)
    migrate(found)
    return found


class Issuer:
    """A local OIDC issuer. It publishes two keys and signs with the first."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.public = self.key.public_key()
        self.unavailable = False
        # Each response takes this many seconds.
        self.drips_for = 0.0
        other = ec.generate_private_key(ec.SECP256R1()).public_key()
        jwks = [
            {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.public)), "kid": "k1"},
            # The same key, for one algorithm only; and a key that no library knows.
            {
                **json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.public)),
                "kid": "k1-rs256",
                "alg": "RS256",
            },
            {"kty": "unknown", "kid": "k3"},
            {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(other)), "kid": "elliptic curve"},
        ]
        document = {"keys": jwks}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if issuer.unavailable:
                    self.send_error(503)
                    return
                configuration = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                body = json.dumps(document if self.path == "/keys" else configuration).encode()
                self.send_response(200)
                self.end_headers()
                ends = time.monotonic() + issuer.drips_for
                while time.monotonic() < ends:
                    self.wfile.write(b" ")
                    time.sleep(0.05)
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def token(self, algorithm: str = "RS256", kid: str = "k1", **changes: Any) -> str:
        claims = {
            "iss": self.url,
            "aud": "headwater",
            "exp": int(time.time()) + 60,
            "roles": ["write"],
            **changes,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(claims, self.key, algorithm=algorithm, headers={"kid": kid})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    yield found
    found.close()


@pytest.fixture(scope="module")
def with_tokens(headwater_settings: Settings, database: str, issuer: Issuer) -> Iterator[Catalog]:
    settings = guarded(headwater_settings, oidc_issuer=issuer.url, oidc_audience="headwater")
    with running(settings, database) as found:
        yield found


def test_a_token_of_the_issuer_allows_the_routes_of_its_roles(
    with_tokens: Catalog, issuer: Issuer, database: str
) -> None:
    headers = bearer(issuer.token())
    event = run_event(job="by token")
    assert with_tokens.call("POST", "/lineage", json=event, headers=headers).status_code == 201
    assert with_tokens.call("DELETE", "/namespaces/tests", headers=headers).status_code == 403
    # API keys are still accepted.
    _, key = create_key(database, "with tokens", "read", None)
    assert with_tokens.call("GET", "/tags", headers=bearer(key)).status_code == 200


def test_an_invalid_token_is_refused(with_tokens: Catalog, issuer: Issuer) -> None:
    foreign = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    wrong = {
        "expired": issuer.token(exp=int(time.time()) - 3600),
        "no expiry": issuer.token(exp=None),
        "another audience": issuer.token(aud="other"),
        "no audience": issuer.token(aud=None),
        "another issuer": issuer.token(iss="https://example.com"),
        "another key": jwt.encode(claims, foreign, algorithm="RS256", headers={"kid": "k1"}),
        "unknown key": jwt.encode(claims, foreign, algorithm="RS256", headers={"kid": "k2"}),
        "unsigned": jwt.encode(claims, "", algorithm="none", headers={"kid": "k1"}),
        "no key named": jwt.encode(claims, issuer.key, algorithm="RS256"),
        "an algorithm for another type of key": jwt.encode(
            claims, foreign, algorithm="RS256", headers={"kid": "elliptic curve"}
        ),
        "the public key as a shared secret": signed_with_public_key(claims, issuer),
        "not yet": issuer.token(nbf=int(time.time()) + 3600),
        "no token": "a.b.c",
        "dots": "...",
        "beyond ASCII": "ü.ü.ü",
        "truncated": issuer.token()[:-20],
    }
    for reason, token in wrong.items():
        answer = with_tokens.call(
            "GET", "/namespaces", headers={"Authorization": f"Bearer {token}".encode()}
        )
        assert answer.status_code == 401, reason
    for roles in ([], ["nothing"], None, {"read": True}):
        answer = with_tokens.call("GET", "/tags", headers=bearer(issuer.token(roles=roles)))
        assert answer.status_code == 403, roles


@pytest.mark.parametrize(
    "catalog",
    [
        {"oidc_issuer": "https://example.com"},
        {"oidc_issuer": "http://example.com", "oidc_audience": "x"},
    ],
)
def test_an_issuer_without_audience_or_tls_is_refused(catalog: dict[str, str]) -> None:
    with pytest.raises(SettingError, match="OIDC"):
        Guard(load(catalog=catalog).catalog)


def signed_with_public_key(claims: dict[str, Any], issuer: Issuer) -> str:
    """A token signed by HMAC with the public key, which would be valid if HMAC were allowed."""
    pem = issuer.public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    def part(value: bytes) -> bytes:
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    head = json.dumps({"alg": "HS256", "typ": "JWT", "kid": "k1"}).encode()
    content = part(head) + b"." + part(json.dumps(claims).encode())
    signature = hmac.new(pem, content, hashlib.sha256).digest()
    return (content + b"." + part(signature)).decode()


def test_keys_of_an_unavailable_issuer_stay_valid_for_a_day() -> None:
    now = [1000.0]
    issuer = Issuer()
    catalog = {"oidc_issuer": issuer.url, "oidc_audience": "headwater"}
    checker = TokenChecker(load(catalog=catalog).catalog, clock=lambda: now[0])
    token = issuer.token()

    async def accepted() -> bool:
        return await checker.claims(token) is not None

    issuer.unavailable = True
    assert not asyncio.run(accepted()), "no key was read yet"
    issuer.unavailable = False
    now[0] += 11
    assert asyncio.run(accepted()), "keys are requested again after the pause"
    issuer.unavailable = True
    now[0] += 3600
    assert asyncio.run(accepted())
    now[0] += 24 * 3600
    assert not asyncio.run(accepted()), "the key may have been withdrawn"
    issuer.close()


def test_a_key_that_names_its_algorithm_is_used_with_no_other(issuer: Issuer) -> None:
    catalog = {"oidc_issuer": issuer.url, "oidc_audience": "headwater"}
    checker = TokenChecker(load(catalog=catalog).catalog)
    tokens = [
        issuer.token("PS256"),
        issuer.token("RS256", "k1-rs256"),
        issuer.token("PS256", "k1-rs256"),
    ]

    async def accepted() -> list[bool]:
        return [await checker.claims(token) is not None for token in tokens]

    assert asyncio.run(accepted()) == [True, True, False]


def test_an_issuer_that_sends_slowly_delays_unknown_keys_only_and_not_for_long() -> None:
    now = [1000.0]
    issuer = Issuer()
    catalog = {"oidc_issuer": issuer.url, "oidc_audience": "headwater"}
    checker = TokenChecker(load(catalog=catalog).catalog, clock=lambda: now[0], timeout_seconds=0.5)

    async def checked(token: str) -> tuple[bool, float]:
        began = time.monotonic()
        return await checker.claims(token) is not None, time.monotonic() - began

    async def story() -> None:
        assert (await checked(issuer.token()))[0]
        issuer.drips_for = 30.0
        now[0] += 3600
        known, unknown = await asyncio.gather(
            checked(issuer.token()), checked(issuer.token(kid="k2"))
        )
        assert known[0]
        assert known[1] < 0.3, "a known key does not wait for the issuer"
        assert not unknown[0]
        assert unknown[1] < 5, "each read of the response was fast, all of them took too long"

    asyncio.run(story())
    issuer.close()


def test_a_token_can_be_limited_to_namespaces(
    headwater_settings: Settings, database: str, issuer: Issuer
) -> None:
    settings = guarded(
        headwater_settings,
        oidc_issuer=issuer.url,
        oidc_audience="headwater",
        oidc_namespaces_claim="teams",
    )
    with running(settings, database) as found:
        for teams, status in (
            (["mine", "more"], 201),
            ("more mine", 201),
            (["*"], 201),
            (["other"], 403),
            ([], 403),
            (None, 403),
        ):
            headers = bearer(issuer.token(teams=teams))
            event = run_event(job="of a team", namespace="mine")
            answer = found.call("POST", "/lineage", json=event, headers=headers)
            assert answer.status_code == status, f"{teams}: {answer.text}"
            every = found.call("GET", "/namespaces", headers=headers)
            assert every.status_code == (200 if teams == ["*"] else 403)
