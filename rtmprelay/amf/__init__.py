"""AMF0 and AMF3: the values of RTMP commands and metadata, and their bytes."""
