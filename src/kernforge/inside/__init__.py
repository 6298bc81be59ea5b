"""Programs that run in the sandbox: standard library only, one file each, copied in."""
