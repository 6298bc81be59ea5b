"""The bytes a build starts from: trees, their hashes, and how they are fetched."""
