"""Publishing: a static index made from the wheels' bytes, upload, installation, CI matrices."""
