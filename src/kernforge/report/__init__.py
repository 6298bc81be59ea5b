"""How answers and progress are shown: terminal and JSON."""
