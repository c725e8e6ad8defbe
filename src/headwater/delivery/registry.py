"""The delivery modes by name."""

from headwater.delivery.exactly_once import ExactlyOnce
from headwater.delivery.modes import Batched, Idempotent, Individual, Mode, Strict
from headwater.errors import InputError

_MODES: dict[str, type[Mode]] = {
    mode.name: mode for mode in (ExactlyOnce, Strict, Idempotent, Batched, Individual)
}
MODE_NAMES = tuple(_MODES)
DEFAULT_MODE = ExactlyOnce.name


def delivery_mode(name: str) -> Mode:
    """The mode of that name, with its defaults.

    Raises:
        InputError: there is none.
    """
    if name not in _MODES:
        raise InputError(f"unknown delivery mode: {name!r}", hint=f"known: {', '.join(MODE_NAMES)}")
    return _MODES[name]()
