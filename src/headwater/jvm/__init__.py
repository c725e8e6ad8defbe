"""Java and jars: which versions belong together, where they are, and how they get there."""
