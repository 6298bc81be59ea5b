"""What a build is made with: locks, environments, the CUDA root, the host and the sandbox."""
