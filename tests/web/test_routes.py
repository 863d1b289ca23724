"""Paths and methods: what each answers with, and how all others are refused."""

from __future__ import annotations

import pytest

from rtmprelay.web.settings import HttpSettings
from tests.helpers import group, keyframe
from tests.web.helpers import Client, Web, destination

pytestmark = pytest.mark.filterwarnings("ignore:Passing HostnameEndpoint a reactor")

READABLE = ["/health", "/streams", "/destinations", "/recordings", "/metrics", "/control"]


@pytest.fixture
def web() -> Web:
    """A relay with a stream and a disabled destination."""
    web = Web(destinations=[destination("far", enabled=False)])
    web.publish()
    return web


@pytest.mark.parametrize("path", READABLE)
def test_readable_path_answers_get_head_and_options_and_refuses_put(web: Web, path: str) -> None:
    got = web.get(path)
    assert got.status == 200
    assert got.headers["cache-control"] == "no-store"
    assert got.headers["x-content-type-options"] == "nosniff"
    head = web.request("HEAD", path)
    assert head.status == 200
    assert head.headers["content-type"] == got.headers["content-type"]
    assert int(head.headers["content-length"]) > 0
    options = web.request("OPTIONS", path)
    assert options.status == 204
    assert {"GET", "HEAD", "OPTIONS"} <= set(options.headers["allow"].split(", "))
    refused = web.request("PUT", path)
    assert refused.error == (405, "method_not_allowed")
    assert refused.headers["allow"] == options.headers["allow"]


@pytest.mark.parametrize("path", ["/health", "/streams", "/destinations", "/recordings", "/control"])
def test_every_document_is_one_line_of_json_with_the_api_version(web: Web, path: str) -> None:
    got = web.get(path)
    assert got.headers["content-type"] == "application/json"
    assert got.json["api_version"] == 1
    assert got.body.count(b"\n") == 1


def test_health_has_all_fields_that_monitors_look_for(web: Web) -> None:
    health = web.get("/health").json
    assert health["status"] == "ok"
    assert health["last_updated"] == "2026-01-01T12:00:00.000Z"
    assert health["streams"] == 1
    assert health["players"] == 0
    assert health["total_destinations"] == 1
    assert health["connected_destinations"] == health["failed_destinations"] == 0
    assert (
        health["total_messages_sent"] == health["total_messages_dropped"] == health["total_bytes_sent"] == 0
    )
    assert health["destinations"] == {
        "far": {
            "url": "rtmp://192.0.2.1:1935/live/***",
            "status": "disabled",
            "last_error": None,
            "messages_sent": 0,
            "messages_dropped": 0,
            "bytes_sent": 0,
            "connected_duration": None,
            "reconnect_count": 0,
        }
    }


def test_stream_has_measured_and_declared_values_alone_and_in_the_list(web: Web) -> None:
    web.advance(3)
    stream = web.registry.get("live/test")
    stream.publish_frames(group(1000), web.clock.seconds())
    web.advance(2)
    stream.publish_frames([keyframe(3000), keyframe(5000)], web.clock.seconds())
    web.advance(2)
    shown = web.get("/streams").json["streams"]["live/test"]
    alone = web.get("/streams/live/test").json
    assert alone.pop("api_version") == 1
    assert alone == shown
    assert (shown["app"], shown["name"], shown["live"]) == ("live", "test", True)
    assert shown["publisher"] == {"connection": "c000001", "address": "192.0.2.1:50000"}
    assert shown["started_at"] == "2026-01-01T12:00:00.000Z"
    assert shown["duration"] == pytest.approx(7.0)
    assert shown["video"] == {
        "codec": "H.264 AVC",
        "width": 1280,
        "height": None,
        "fps": None,
        "declared_bitrate_kbps": None,
    }
    assert shown["audio"] == {
        "codec": "AAC",
        "sample_rate": 44100,
        "channels": 2,
        "declared_bitrate_kbps": None,
    }
    assert shown["messages_in"] == 25
    assert shown["bitrate_kbps"] > 0
    assert shown["keyframe_interval"] == pytest.approx(5.0 / 3, abs=0.001)
    assert shown["media"] == {
        "flv": "/live/test.flv",
        "mp4": "/live/test.mp4",
        "hls": None,
        "page": None,
    }
    assert shown["recording"] is None
    assert shown["destinations"] == []


def test_stream_is_found_without_an_app_and_with_encoded_slashes(web: Web) -> None:
    for key in ("alone", "live/a/b", "live/with space"):
        web.publish(key)
    assert web.get("/streams/alone").json["app"] == ""
    assert web.get("/streams/live/a/b").json["key"] == "live/a/b"
    assert web.get("/streams/live/a%2Fb").json["key"] == "live/a/b"
    spaced = web.get("/streams/live/with%20space").json
    assert spaced["media"]["flv"] == "/live/with%20space.flv"


def test_destination_has_every_field_alone_and_in_the_list(web: Web) -> None:
    shown = web.get("/destinations").json["destinations"]["far"]
    alone = web.get("/destinations/far").json
    assert alone.pop("api_version") == 1
    assert alone == shown
    assert shown["name"] == "far"
    assert (shown["status"], shown["enabled"], shown["match"]) == ("disabled", False, "*")
    assert (shown["lasting"], shown["given_up"], shown["outlets"]) == (False, False, [])


def test_destination_with_a_slash_in_its_name_is_found_encoded_or_not() -> None:
    """`--relay-to` makes such names."""
    web = Web(
        destinations=[destination("192.0.2.1:1935/live", enabled=False), destination("a b", enabled=False)]
    )
    for path in ("192.0.2.1:1935/live", "192.0.2.1%3A1935%2Flive", "a%20b"):
        assert web.get(f"/destinations/{path}").status == 200
    assert web.change("POST", "/destinations/192.0.2.1:1935/live/reconnect").status == 202
    assert web.get("/destinations/192.0.2.1:1935/live/reconnect").error == (405, "method_not_allowed")


NOWHERE = [
    "/nothing",
    "//",
    "/health/",
    "//health",
    "/health/more",
    "/streams/",
    "/streams/live/gone",
    "/destinations/",
    "/destinations/gone",
    "/assets",
    "/assets/",
    "/assets/../settings.py",
    "/assets/%2e%2e/settings.py",
    "/assets/..%2fsettings.py",
    "/assets/..%2F..%2F..%2Fetc%2Fpasswd",
    "/assets//etc/passwd",
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/live/gone.flv",
    "/live/gone.mp4",
    "/live//x.flv",
    "/.flv",
    "/live/test.ts",
    "/Health",
    "/health;x",
    "/favicon.ico/..",
]


@pytest.mark.parametrize("path", NOWHERE)
def test_unknown_path_is_a_404_in_json(web: Web, path: str) -> None:
    got = web.get(path)
    assert got.error == (404, "not_found")
    assert b"<" not in got.body


@pytest.mark.parametrize(
    "path", ["/%00", "/streams/a%0d%0ab", "/destinations/%ff%fe", "/assets/%00.js", "/a%0aB.flv"]
)
def test_unprintable_path_is_a_bad_request(web: Web, path: str) -> None:
    assert web.get(path).error == (400, "bad_request")


def test_path_with_a_host_is_served_and_one_without_a_slash_is_not(web: Web) -> None:
    assert web.get("http://relay:8080/health").status == 200
    assert web.get("health").error == (400, "bad_request")
    assert web.request("OPTIONS", "*").status == 204


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "BREW", "get"])
def test_unknown_method_is_not_quoted_in_its_error(web: Web, method: str) -> None:
    got = web.request(method, "/health")
    assert got.error == (501, "not_implemented")
    assert method.encode() not in got.body.replace(b"not_implemented", b"").replace(b"GET", b"")


def test_needless_query_is_ignored(web: Web) -> None:
    assert web.get("/health?_=1&x[]=%00").status == 200


def test_http_1_0_is_answered_and_its_connection_closed() -> None:
    web = Web()
    client = Client(web)
    client.send(b"GET /health HTTP/1.0\r\n\r\n")
    (response,) = client.responses()
    assert response.status == 200
    assert client.lost


# -- CORS --------------------------------------------------------------------------------------------------------------


def allowed_origin(web: Web, path: str, origin: str, method: str = "GET") -> str | None:
    return web.request(method, path, headers={"Origin": origin}).headers.get("access-control-allow-origin")


def test_cors_header_is_sent_only_to_allowed_origins_and_never_for_control() -> None:
    page = "https://page.example"
    assert allowed_origin(Web(), "/health", page) is None
    named = Web(HttpSettings(cors=(page,)))
    named.publish()
    assert allowed_origin(named, "/health", page) == page
    assert allowed_origin(named, "/health", "https://evil.example") is None
    assert named.get("/health").headers["vary"] == "Origin"
    assert allowed_origin(named, "/nothing", page) == page
    assert allowed_origin(named, "/control", page) is None
    assert allowed_origin(Web(HttpSettings(cors=("*",))), "/streams", page) == "*"


def test_preflight_allows_reading_but_no_token() -> None:
    web = Web(HttpSettings(cors=("*",)))
    asked = web.request(
        "OPTIONS",
        "/destinations",
        headers={"Origin": "https://page.example", "Access-Control-Request-Method": "POST"},
    )
    assert asked.status == 204
    assert asked.headers["access-control-allow-methods"] == "GET, HEAD"
    assert "authorization" not in asked.headers["access-control-allow-headers"].lower()


# -- the page ----------------------------------------------------------------------------------------------------------


def test_page_and_its_files_have_types_etags_and_a_strict_policy() -> None:
    web = Web()
    page = web.get("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    script = web.get("/assets/dashboard.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert web.get("/assets/dashboard.css").headers["content-type"] == "text/css; charset=utf-8"
    again = web.get("/assets/dashboard.js", If_None_Match=script.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert web.get("/assets/dashboard.js", If_None_Match='"other"').status == 200
    head = web.request("HEAD", "/")
    assert int(head.headers["content-length"]) == len(page.body)
    assert "access-control-allow-origin" not in page.headers


def test_document_is_generated_again_after_a_while_or_a_change(web: Web) -> None:
    first = web.get("/health").body
    web.clock.advance(0.1)
    assert web.get("/health").body == first
    web.clock.advance(0.2)
    second = web.get("/health").body
    assert second != first
    assert web.change("POST", "/destinations/far/enable").status == 200
    assert web.get("/health").json["destinations"]["far"]["status"] != "disabled"
