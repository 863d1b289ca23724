# HLS for many viewers behind Varnish: each playlist and each piece of media is asked for once, whoever watches.
# The relay runs with: --hls '*' --hls-anonymous --http-media 127.0.0.1:8081
# HTTPS and HTTP/2 come from a proxy in front of it, such as haproxy (hls-haproxy.cfg).
vcl 4.1;

backend relay {
    .host = "127.0.0.1";
    .port = "8081";
    # A playlist may be awaited for three target durations.
    .first_byte_timeout = 40s;
    .between_bytes_timeout = 60s;
}

sub vcl_recv {
    # Players of Apple send these; no answer depends on them.
    unset req.http.Cookie;
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    # Streams without an end: nothing to keep.
    if (req.url ~ "^[^?]*\.(flv|mp4)(\?|$)") {
        return (pipe);
    }
}

sub vcl_backend_response {
    # The relay says itself what may be kept, and for how long. An old playlist must not be sent while a new one is fetched.
    set beresp.grace = 0s;
    if (beresp.ttl <= 0s) {
        # Not for long: the same address may have a good answer in a moment.
        set beresp.ttl = 1s;
        set beresp.uncacheable = true;
    }
    return (deliver);
}
