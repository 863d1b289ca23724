"""rtmprelay_plugins/door_plugin.py"""

from rtmprelay.plugin_factories import AuthorizerPlugin

door = AuthorizerPlugin(
    name="door",
    help="Lets those in who know the word.",
    argument_format="WORD",
    maker="door:make",
)
