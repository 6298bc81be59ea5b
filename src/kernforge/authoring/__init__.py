"""Writing and keeping recipes: new ones, patches, lint, moving pins."""
