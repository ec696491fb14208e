"""Requests to servers of catalogs that fail, lie, wait or send too much."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, StorageError
from lance_spark.namespace.external.bearer_tokens import ClientCredentials
from lance_spark.namespace.external.iceberg_rest import IcebergRestCatalog
from lance_spark.namespace.external.server_settings import server_of
from lance_spark.namespace.settings import CatalogSettings
from lance_spark.storage.http_parts import HttpLimits
from lance_spark.storage.json_server import JsonServer
from lance_spark.storage.server_errors import LostReplyError, RefusedError
from tests.support.catalog_servers import LOST, Fault, serving
from tests.support.iceberg_servers import IcebergServer

SECRET = "s3cr3t/value"


class Clock:
    """Time that goes on by waiting alone."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waits.append(seconds)

    def limits(self, **changed: Any) -> HttpLimits:
        return replace(HttpLimits(sleep=self.sleep, clock=lambda: self.now), **changed)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def other() -> Iterator[IcebergServer]:
    server = IcebergServer()
    server.namespaces["db",] = {"owner": "ann"}
    with serving(server):
        yield server


def catalog(other: IcebergServer, limits: HttpLimits, headers: dict[str, str] | None = None) -> IcebergRestCatalog:
    server = JsonServer(other.uri, description="the catalog", headers=headers, limits=limits)
    return IcebergRestCatalog(server, ("wh",))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_reading_is_repeated_when_the_server_is_busy(other: IcebergServer, clock: Clock, status: int) -> None:
    other.order("GET", "namespaces", Fault(status=status), times=3)
    assert catalog(other, clock.limits()).list_namespaces() == ["db"]
    assert len(clock.waits) == 3
    assert clock.waits[0] < clock.waits[2] < 2


def test_the_server_says_how_long_to_wait(other: IcebergServer, clock: Clock) -> None:
    soon = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=40), usegmt=True)
    for value in ("7", soon, "some day"):
        other.order("GET", "namespaces", Fault(status=429, headers={"Retry-After": value}))
    assert catalog(other, clock.limits()).list_namespaces() == ["db"]
    assert clock.waits[0] == 7
    assert 30 < clock.waits[1] <= 40
    assert clock.waits[2] < 2


def test_nobody_waits_longer_than_two_minutes(other: IcebergServer, clock: Clock) -> None:
    other.order("GET", "namespaces", Fault(status=503, body='{"error": {"message": "busy", "type": "x"}}'), times=1000)
    with pytest.raises(StorageError, match=r"the catalog says of wh: busy \(status 503\)"):
        catalog(other, clock.limits()).list_namespaces()
    assert 60 < clock.now <= 120
    other._faults.clear()
    other.order("GET", "namespaces", Fault(status=429, headers={"Retry-After": "3600"}))
    before = clock.now
    with pytest.raises(StorageError, match="status 429"):
        catalog(other, clock.limits()).list_namespaces()
    assert clock.now == before


def test_connections_that_break_are_made_again(other: IcebergServer, clock: Clock) -> None:
    other.order("GET", "namespaces", Fault(), times=2)
    assert catalog(other, clock.limits()).list_namespaces() == ["db"]
    other.order("GET", "namespaces", Fault(), times=1000)
    with pytest.raises(StorageError, match="the catalog does not answer"):
        catalog(other, clock.limits()).list_namespaces()
    assert clock.now < 20


def test_a_server_that_is_down_is_not_waited_for_again(other: IcebergServer, clock: Clock) -> None:
    names = catalog(other, clock.limits())
    assert names.list_namespaces() == ["db"]
    other.order("GET", "namespaces", Fault(), times=1000)
    with pytest.raises(StorageError, match="the catalog does not answer"):
        names.list_namespaces()
    waited = clock.now
    assert waited > 5
    with pytest.raises(StorageError, match="the catalog does not answer"):
        names.list_namespaces()
    assert clock.now == waited
    clock.now += 31
    with pytest.raises(StorageError, match="the catalog does not answer"):
        names.list_namespaces()
    assert clock.now > waited + 36
    other._faults.clear()
    assert names.list_namespaces() == ["db"]
    other.order("GET", "namespaces", Fault(), times=2)
    assert names.list_namespaces() == ["db"]


def test_a_server_that_is_not_there(clock: Clock) -> None:
    with serving(server := IcebergServer()):
        pass
    with pytest.raises(StorageError, match=r"the catalog does not answer: .*refused") as raised:
        catalog(server, clock.limits()).create_namespace(("db",))
    assert not isinstance(raised.value, LostReplyError)  # Nothing was sent.


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(status=200, body="<html><body>Sign in</body></html>"), r"no object in JSON: <html><body>Sign in"),
        (Fault(status=200, body="[1]"), "no object in JSON"),
        (Fault(status=200, body=""), "no object in JSON: nothing"),
        (Fault(status=200, body="[" * 100_000), "no object in JSON"),
        (Fault(status=200, body='{"namespaces": "db"}'), "namespaces is no list"),
        (Fault(status=200, body='{"namespaces": [["a", "b"]]}'), "not those of the one"),
        (Fault(status=200, body='{"namespaces": [[]]}'), "not those of the one"),
        (Fault(status=200, body='{"namespaces": [], "next-page-token": 7}'), "no end of the listing"),
        (Fault(status=302, headers={"Location": "http://elsewhere/"}), "redirects .* set endpoint"),
        (Fault(status=404, body="<html>no page</html>"), "no page.*check endpoint"),
        (
            Fault(status=403, body='{"error": {"message": "not yours", "type": "Forbidden"}}'),
            r"not yours \(status 403\)",
        ),
    ],
)
def test_answers_that_the_interface_does_not_have(
    other: IcebergServer, clock: Clock, fault: Fault, message: str
) -> None:
    names = catalog(other, clock.limits())
    other.order("GET", "namespaces", fault)
    with pytest.raises(StorageError, match=message):
        names.list_namespaces()
    assert clock.waits == []


def test_a_wrong_address_is_not_taken_for_a_missing_object(other: IcebergServer, clock: Clock) -> None:
    names = catalog(other, clock.limits())
    other.order("GET", "namespaces", Fault(status=404, body="<html>404</html>"))
    with pytest.raises(StorageError, match="check endpoint"):
        names.namespace_exists(("db",))
    assert not names.namespace_exists(("nothing",))


def test_too_large_and_too_slow_answers(other: IcebergServer, clock: Clock) -> None:
    names = catalog(other, clock.limits(body_bytes=1000))
    assert names.list_namespaces() == ["db"]
    other.order("GET", "namespaces", Fault(status=200, body=f'{{"namespaces": [{" " * 2000}]}}'))
    with pytest.raises(StorageError, match="too large"):
        names.list_namespaces()
    assert names.list_namespaces() == ["db"]
    drip = Fault(status=200, body='{"namespaces": []}' + " " * 100, drip=0.02)
    other.order("GET", "namespaces", drip)
    with pytest.raises(StorageError, match="too slowly"):
        catalog(other, HttpLimits(answer_seconds=0.2)).list_namespaces()
    other.order("GET", "namespaces", Fault(status=200, body="{}", drip=2.0))
    with pytest.raises(StorageError, match="does not answer"):
        catalog(other, HttpLimits(read_seconds=0.1, silence_seconds=0.0)).list_namespaces()


def test_a_listing_without_end(other: IcebergServer, clock: Clock) -> None:
    again = Fault(status=200, body='{"namespaces": [["a"]], "next-page-token": "x"}')
    other.order("GET", "namespaces", again, times=50)
    with pytest.raises(StorageError, match="no end of the listing"):
        catalog(other, clock.limits()).list_namespaces()
    assert len(other.asked("GET", "namespaces")) == 2


def test_requests_that_change_something_are_sent_once(other: IcebergServer, clock: Clock) -> None:
    names = catalog(other, clock.limits())
    other.order("POST", "namespaces", Fault(status=503, body='{"error": {"message": "busy", "type": "x"}}'))
    with pytest.raises(StorageError, match=r"busy \(status 503\); the request was not carried out so far"):
        names.create_namespace(("new",))
    other.order("DELETE", "namespaces", Fault())
    with pytest.raises(StorageError, match="was not carried out so far"):
        names.drop_namespace(("db",))
    assert len(other.asked("POST")) == len(other.asked("DELETE")) == 1
    assert clock.waits == []


def test_lost_answers_are_found_out_about(other: IcebergServer, clock: Clock) -> None:
    names = catalog(other, clock.limits())
    html = Fault(carried_out=True, status=200, body="<html>")
    for position, lost in enumerate((LOST, Fault(carried_out=True, status=500), html)):
        other.order("POST", "namespaces", lost)
        names.create_namespace((f"n{position}",), {"a": "b"})
    other.order("POST", "properties", LOST)
    names.set_namespace_properties(("db",), {"owner": None, "team": "t"})
    assert other.namespaces["db",] == {"team": "t"}
    other.order("DELETE", "namespaces", LOST)
    names.drop_namespace(("db",))
    assert sorted(other.namespaces) == [("n0",), ("n1",), ("n2",)]


def test_what_happened_stays_unknown_if_the_server_is_away(other: IcebergServer, clock: Clock) -> None:
    names = catalog(other, clock.limits())
    other.order("POST", "namespaces", LOST)
    names.list_namespaces()
    other.order("GET", "namespaces/new", Fault(status=503), times=1000)
    with pytest.raises(StorageError, match="whether the request was carried out is not known"):
        names.create_namespace(("new",))


def settings_for(other: IcebergServer, **values: str) -> CatalogSettings:
    return CatalogSettings("iceberg", {"endpoint": other.uri, **values})


def opened(other: IcebergServer, **values: str) -> IcebergRestCatalog:
    settings = {name.replace("oauth2_", "oauth2-").replace("server_", "server-"): text for name, text in values.items()}
    return IcebergRestCatalog.of_settings({"endpoint": other.uri, "warehouse": "wh", **settings}, (), {})


@pytest.mark.parametrize(("status", "kind"), [(401, "NotAuthorizedException"), (419, "AuthenticationTimeoutException")])
def test_a_token_is_fetched_and_renewed_once(other: IcebergServer, status: int, kind: str) -> None:
    other.tokens = {"-"}
    other.grants = [("first", 3600), ("second", 3600)]
    names = opened(other, credential=f"me:{SECRET}")
    assert names.list_namespaces() == ["db"]
    assert other.credentials[0] == {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_secret": SECRET,
        "scope": "catalog",
    }
    other.tokens.discard("first")
    body = f'{{"error": {{"message": "over", "type": "{kind}", "code": {status}}}}}'
    other.order("GET", "namespaces", Fault(status=status, body=body))
    assert names.list_namespaces() == ["db"]
    names.create_namespace(("x",))
    assert len(other.credentials) == 2
    assert other.requests[-1].headers["Authorization"] == "Bearer second"
    other.tokens = {"-"}
    with pytest.raises(StorageError) as raised:  # There is no third one.
        names.list_namespaces()
    assert SECRET not in str(raised.value)


def test_a_refused_token_renews_a_request_that_changes_something(other: IcebergServer) -> None:
    other.tokens = {"new"}
    other.grants = [("new", 3600)]
    names = opened(other, credential=SECRET, auth_token="old", scope="mine")
    names.create_namespace(("x",))
    assert other.credentials == [{"grant_type": "client_credentials", "client_secret": SECRET, "scope": "mine"}]
    assert ("x",) in other.namespaces


def test_a_token_is_renewed_before_its_end(other: IcebergServer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(
        "lance_spark.namespace.external.server_settings.HttpLimits",
        lambda **given: HttpLimits(**given, clock=lambda: now[0]),
    )
    other.tokens = {"-"}
    other.grants = [("first", 3600), ("second", 4), ("third", 3600)]
    names = opened(other, credential=f"me:{SECRET}")
    for moment, count in ((0.0, 1), (3530.0, 1), (3541.0, 2), (3542.0, 2), (3543.5, 3)):
        now[0] = moment
        names.list_namespaces()
        assert len(other.credentials) == count


def test_threads_share_a_token(other: IcebergServer) -> None:
    other.tokens = {"-"}
    other.grants = [("first", 3600), ("second", 3600)]
    names = opened(other, credential=f"me:{SECRET}")
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(names.list_namespaces())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["db"]] * 8
    assert len(other.credentials) == 1


def test_a_token_is_renewed_by_the_first_thread_that_needs_it() -> None:
    grants = iter(["second", "third"])
    token = ClientCredentials(lambda _form: {"access_token": next(grants)}, {}, lambda: 0.0, "it", "first")
    assert [token.instead_of("first") for _ in range(3)] == ["second"] * 3
    assert token.current() == "second"
    assert token.instead_of("second") == "third"


@pytest.mark.parametrize("answer", ['{"access_token": 1}', '{"access_token": "a\\nb"}', "{}", "<html>", "[]"])
def test_tokens_that_are_none(other: IcebergServer, answer: str) -> None:
    other.order("POST", "tokens", Fault(status=200, body=answer))
    with pytest.raises(StorageError, match="token"):
        opened(other, credential=f"me:{SECRET}").list_namespaces()


def test_no_secret_is_shown(other: IcebergServer, clock: Clock) -> None:
    other.tokens = {"right"}
    names = opened(other, auth_token=SECRET)
    with pytest.raises(StorageError, match=r"\*\*\* is not known \(status 401\); check the credentials") as raised:
        names.list_namespaces()
    shown = [str(raised.value), repr(names), repr(names._server), repr(names._server._token)]
    names = opened(other, credential=f"me:{SECRET}")
    with pytest.raises(StorageError, match=r"no \*\*\* here .*check credential") as raised:
        names.list_namespaces()
    shown += [str(raised.value), repr(names._server._token)]
    server = JsonServer(other.uri, description="the catalog", headers={"X-Key": SECRET}, limits=clock.limits())
    other.order("GET", "thing", Fault(status=400, body=f"no key {SECRET} here"))
    with pytest.raises(RefusedError, match=r"no key \*\*\* here") as raised:
        server.get("/thing", "thing")
    shown += [str(raised.value), repr(server)]
    for setting in (
        {"auth_token": f"{SECRET}\n\x01"},
        {"header.x": f"{SECRET}\x01"},
        {"endpoint": f"http://me:{SECRET}@h"},
    ):
        with pytest.raises(InvalidInputError) as refused:
            IcebergRestCatalog.of_settings({"endpoint": other.uri} | setting, (), {})
        shown.append(str(refused.value))
    assert not [text for text in shown if SECRET in text]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs the setting endpoint"),
        ({"endpoint": "catalog.example"}, "no address"),
        ({"endpoint": "ftp://h"}, "no address"),
        ({"endpoint": "http://h/?a=b"}, "more than host and path"),
        ({"endpoint": "http://h", "scope": "x"}, "set credential too"),
        ({"endpoint": "http://h", "vend_credentials": "maybe"}, "it is true or false"),
        ({"endpoint": "http://h", "read_timeout": "1s"}, "whole number"),
        ({"endpoint": "http://h", "endpont": "x"}, "did you mean endpoint"),
        ({"endpoint": "http://h", "header.a b": "x"}, "no header"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        IcebergRestCatalog.of_settings(settings, (), {})


def test_timeouts_of_settings_are_milliseconds(other: IcebergServer) -> None:
    settings = settings_for(other, connect_timeout="2000", read_timeout="50")
    limits = server_of(settings, other.uri, "the catalog", token_path=None, scope="x").limits
    assert (limits.connect_seconds, limits.read_seconds) == (2.0, 0.05)


def test_headers_of_settings_are_sent(other: IcebergServer) -> None:
    names = IcebergRestCatalog.of_settings({"uri": other.uri, "headers.X-Team": "a", "header.X-Site": "b"}, ("wh",), {})
    names.list_namespaces()
    assert {"X-Team": "a", "X-Site": "b"}.items() <= other.requests[-1].headers.items()


def test_a_certificate_that_nobody_has_signed_is_refused(tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(timezone.utc)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    path = tmp_path / "server.pem"
    path.write_bytes(
        made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as listener:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
        thread = threading.Thread(target=listener.handle_request)
        thread.start()
        with pytest.raises(StorageError, match="no secure connection"):
            JsonServer(f"https://localhost:{listener.server_port}", description="the catalog").get("/", "it")
        thread.join()


def test_errors_that_leave_are_of_this_package(other: IcebergServer, clock: Clock) -> None:
    names = catalog(other, clock.limits())
    for status in (400, 401, 402, 404, 405, 406, 409, 418, 501):
        other.order("GET", "namespaces/db", Fault(status=status, body='{"error": {"type": "NoSuch", "message": "m"}}'))
        with pytest.raises(LanceError, match=f"status {status}") as raised:
            names.namespace_properties(("db",))
        assert isinstance(raised.value, NotFoundError) == (status == 404)
