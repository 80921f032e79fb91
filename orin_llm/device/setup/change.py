"""What a change is: a part of the system whose state can be read, and written again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from orin_llm.device.setup.system import System
from orin_llm.errors import OrinError

# Goes into the snapshot as JSON, and is all that `write` needs.
State = Mapping[str, str | int | bool | None]


class NotPossible(OrinError):
    """A change that this machine has no place for; the message says why. The others can be made."""


class Change(ABC):
    """One part of the system. Applying and reverting are the same: a state is written.

    Attributes:
        name: on the command line and in the snapshot.
        title: what it is good for, in one line.
        file: that its state's `text` is of, or "".
        reboot: whether it holds at the next boot only.
    """

    name: str
    title: str
    file: str = ""
    reboot: str = "no"  # or "yes", or "maybe" where only the tool that makes the change knows

    @abstractmethod
    def read(self, system: System) -> State:
        """The present state.

        Raises:
            NotPossible: the system does not have that part.
        """

    @abstractmethod
    def wanted(self, system: System, now: State) -> State:
        """The state that the setup is to bring about; equal to `now` if it is there already.

        Raises:
            NotPossible: the system cannot have it.
        """

    @abstractmethod
    def write(self, system: System, state: State) -> None:
        """Bring about a state that `read` or `wanted` has returned, from any other.

        Raises:
            OrinError: it did not succeed; the state may be neither then.
        """

    def waits_for_reboot(self, system: System, state: State) -> str:
        """What of the state that was written is not in force before a reboot; "" if all is."""
        return ""
