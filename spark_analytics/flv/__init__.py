"""Reads the tags of FLV files with numpy, whole files or any part of one, by the rules of `rtmprelay.flv.scan`."""
