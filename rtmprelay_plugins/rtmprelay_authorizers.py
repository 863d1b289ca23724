"""The authorizers that come with rtmprelay."""

from rtmprelay.plugin_factories import AuthorizerPlugin

keys_file = AuthorizerPlugin(
    name="keys-file",
    help="Keys and users for patterns of streams, from a JSON file. SIGHUP reads it again.",
    argument_format="PATH",
    maker="rtmprelay.access.authorizers.keys_file:make_keys_file",
)

http = AuthorizerPlugin(
    name="http",
    help="Asks another server by POST with JSON: 2xx allows, 4xx refuses, and without an answer nobody gets in.",
    argument_format="URL[#timeout=3&cache=10&token-file=PATH&ca-file=PATH]",
    maker="rtmprelay.access.authorizers.http_authorizer:make_http_authorizer",
)

jwt = AuthorizerPlugin(
    name="jwt",
    help="Signed tokens with action, stream and exp. The file has the secret or the public key. SIGHUP reads it again.",
    argument_format="KEYFILE[#audience=TEXT&issuer=TEXT&leeway=10]",
    maker="rtmprelay.access.authorizers.jwt_authorizer:make_jwt_authorizer",
)

allow_from = AuthorizerPlugin(
    name="allow-from",
    help="Networks and addresses that may publish and play; unix, any and none may stand for networks.",
    argument_format="CIDR[,CIDR...] or publish=CIDR[,CIDR...],play=CIDR[,CIDR...]",
    maker="rtmprelay.access.authorizers.allow_from:make_allow_from",
)
