"""Java and jars: pinned versions, the jar cache, and how jars are fetched and verified."""
