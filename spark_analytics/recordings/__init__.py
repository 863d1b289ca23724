"""What the tags of a recording say: seconds, keyframes and incidents of each part, and how parts become one file."""
