"""Where extensions of rtmprelay live: drop a module into a folder of this name anywhere on the Python path."""

from twisted.plugin import pluginPackagePaths

__path__.extend(pluginPackagePaths(__name__))
__all__: list[str] = []
