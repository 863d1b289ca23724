"""A relay inside a Twisted program of your own: it says which streams go live and end."""

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from zope.interface import implementer

from rtmprelay.config.relay import RelayConfig
from rtmprelay.events import PublishStarted, PublishStopped
from rtmprelay.interfaces import IEventSink
from rtmprelay.service import RelayService


@implementer(IEventSink)
class Announcer:
    def event_happened(self, time, event):
        if isinstance(event, PublishStarted | PublishStopped):
            print(event.name, event.stream, flush=True)


async def main(reactor):
    application = MultiService()  # Yours may have other children: a web server, a database ...
    relay = RelayService(RelayConfig(listen=("tcp:0:interface=127.0.0.1",)), reactor)
    relay.events.add_sink(Announcer())
    relay.setServiceParent(application)
    application.startService()
    reactor.addSystemEventTrigger("before", "shutdown", application.stopService)
    print("publish to", f"rtmp://127.0.0.1:{relay.addresses[0].port}/live/NAME", flush=True)
    await Deferred()  # Until a signal stops the reactor.


react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
