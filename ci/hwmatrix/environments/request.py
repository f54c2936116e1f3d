"""What is asked of this room in one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hwmatrix.model import Device, Slot, TorchCheck, Variant


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is to be made, for whom, and under which variables."""

    variant: Variant
    check: TorchCheck
    slot: Slot | None
    root: Path
    state: Path
    env: Mapping[str, str]
    say: Callable[[str], None]

    def test_env(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the variables under which tests of the first slot will run."""
        env = {**self.env, **extra}
        if self.slot is not None:
            env = {name: value for name, value in env.items() if name not in self.slot.unset}
            env.update(self.slot.env)
        return env

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that torch must be able to use; none where there is no slot."""
        return self.slot.devices if self.slot else ()

    @property
    def asked(self) -> TorchCheck:
        """The check without what only a device can answer, where the slot has none."""
        return self.check if self.devices else replace(self.check, available="", archs="")
