"""The event sinks that come with rtmprelay."""

from rtmprelay.plugin_factories import EventSinkPlugin

jsonl = EventSinkPlugin(
    name="jsonl",
    help="Appends each event to a file as a line of JSON. SIGHUP opens the file again.",
    argument_format="PATH[#events=publish_*,play_*]",
    maker="rtmprelay.hooks.jsonl:make_jsonl",
)

http = EventSinkPlugin(
    name="http",
    help="Posts each event to another server as JSON, in order, and retries if it fails.",
    argument_format="URL[#events=publish_*,play_*&timeout=5&attempts=8&queue=1000&token-file=PATH&ca-file=PATH]",
    maker="rtmprelay.hooks.webhook:make_webhook",
)

exec_program = EventSinkPlugin(
    name="exec",
    help="Runs a program for events, without a shell. RTMPRELAY_EVENT, RTMPRELAY_STREAM and others are in its environment.",
    argument_format="EVENT[,EVENT...]=PROGRAM[#timeout=30&at-once=4&queue=1000]",
    maker="rtmprelay.hooks.exec_hook:make_exec_hook",
)
