"""Walks over the graph of jobs, datasets and columns. Pure: who is next to whom is asked for."""
