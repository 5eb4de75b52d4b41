"""What takes the place of a context where there is none any more."""

from enum import Enum
from typing import Final


class EndOfInput(Enum):
    """The end of the input, which no context can be."""

    END = "end"


END: Final = EndOfInput.END
