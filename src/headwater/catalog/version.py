"""The version of the service. Read from the package metadata: `import headwater` loads Spark."""

from importlib.metadata import version

VERSION = version("headwater")
