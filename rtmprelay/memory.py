"""How much memory connections use together, as a plain number that each of them changes as it goes."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class MemoryPool:
    """What several connections have in unfinished messages.

    The frame path changes `used` without a call, so its callers compare it with `most` themselves.
    """

    #: The name of the limit that `most` is.
    limit: str
    #: Bytes; None for no bound.
    most: int | None = None
    #: Bytes that a connection may have even if all together are over the bound.
    fair_share: int = 0
    used: int = 0
