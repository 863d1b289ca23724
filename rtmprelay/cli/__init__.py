"""The command `rtmprelay`: one module for each of its commands."""
