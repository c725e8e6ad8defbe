"""The version of the service, from the metadata of the installed package."""

from importlib.metadata import version

VERSION = version("headwater")
