"""Rules of the graph that need no database."""
