"""The event sinks that come with the relay. Plugins in `rtmprelay_plugins` make them."""
