"""Plugins of rtmprelay. Other packages add theirs in a folder of this name anywhere on Python's path."""

from twisted.plugin import pluginPackagePaths

__path__.extend(pluginPackagePaths(__name__))
__all__: list[str] = []
