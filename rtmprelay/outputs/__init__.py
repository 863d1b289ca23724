"""What one viewer, or one stream, gets in a format other than RTMP."""
