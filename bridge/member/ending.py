"""What is told and logged of a member whose script has ended well, or is not needed any more."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from bridge.errors.process_failures import describe_failure
from bridge.host.console import warn
from bridge.member.session import Session
from bridge.settings import GroupSettings

logger = logging.getLogger(__name__)


def tell_end(name: str, session: Session, settings: GroupSettings, decides: bool, sizes: Sequence[int]) -> None:
    """Tell the user what a script may have overlooked, and log how it ended.

    Args:
        sizes: Rows of each worker, of member 0; nothing of others.
    """
    for text in session.outcome.success.warnings if session.outcome is not None else ():
        warn(f"{name} ({settings.main_script}): {text}")
    if settings.trains_apart and sizes:
        warn(f"{settings.operator}: {trained_apart(sizes)}")
    if decides and session.rows_discarded:
        logger.info(
            "%s: the script ended before it had read all; %d of %d rows were dropped",
            name, session.rows_discarded, session.rows_in,
        )  # fmt: skip
    if not decides and session.outcome is not None:
        failure = session.failure
        how = "the script returned" if failure is None else describe_failure(failure).splitlines()[0]
        logger.warning("%s: no worker has used it (%s): numPSs=0 frees its slot", name, how)
    elif not decides:
        logger.info("%s: all that it served have ended; it is stopped", name)


def trained_apart(sizes: Sequence[int]) -> str:
    """Say what became of a training whose workers nobody asked for."""
    return (
        f"the model of the chief has seen {sizes[0]} of {sum(sizes)} rows: numWorkers was left to the parallelism, so "
        f"{len(sizes)} workers share them, and the script trains each apart. Set numWorkers to 1, or let them train together, "
        "as with akdl.engine.strategy"
    )
