"""Makes `twistd rtmprelay` known. Imports nothing of ours, so that it cannot fail to load."""

from twisted.application.service import ServiceMaker

rtmprelay_service = ServiceMaker("rtmprelay", "rtmprelay.tap", "An RTMP server and relay.", "rtmprelay")
