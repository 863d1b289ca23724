"""A test picture with sound, made without any encoder: real H.264 and AAC in a few kilobytes a second."""
