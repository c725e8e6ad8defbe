"""Which Headwater answers. From the package's metadata: `headwater` itself reaches Spark."""

from importlib.metadata import version

VERSION = version("headwater")
