"""rtmprelay_plugins/statsd_plugin.py"""

from rtmprelay.plugin_factories import EventSinkPlugin

statsd = EventSinkPlugin(
    name="statsd",
    help="Counts events in statsd.",
    argument_format="HOST:PORT",
    maker="statsd_sink:make",
)
