"""The authorizers that come with the relay. Each is made by a plugin of `rtmprelay_plugins`."""
