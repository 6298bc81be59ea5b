"""What is asked for: the recipe model, its loader, the matrix and the schema."""
