"""`python -m rtmprelay` is the command `rtmprelay`."""

from rtmprelay.cli.main import entry

if __name__ == "__main__":
    entry()
