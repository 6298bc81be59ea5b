"""kernforge: builds GPU-kernel wheels from pinned source and says which GPUs they serve."""

__version__ = "0.1.0"
