"""Names of columns that TensorFlow cannot save as inputs of a model, reported before the training.

Keras builds the signature of a SavedModel from the names of its inputs. It fails, or changes a
name, only when it saves the model, which is after the training.
"""

from __future__ import annotations

import keyword
import logging
import re
from collections.abc import Sequence

logger = logging.getLogger(__name__)


def warn_of_names(operator: str, columns: Sequence[str]) -> None:
    """Warn of column names that would break saving.

    It is not an error, because the model need not take these columns.
    """
    found = odd_names(columns)
    if found:
        logger.warning(
            "%s: a SavedModel of Keras cannot have inputs with the names of these columns: %s. If"
            ' the model takes one of them, rename it before the training, as in .select("`%s` AS'
            ' other_name"): else saving fails after the training',
            operator,
            "; ".join(f"{name!r} {reason}" for name, reason in found.items()),
            next(iter(found)),
        )


def odd_names(columns: Sequence[str]) -> dict[str, str]:
    """Map each name that Keras cannot use to the reason, a text that continues the name."""
    found = {}
    plain: dict[str, str] = {}
    for name in columns:
        # TensorFlow lowers a name and replaces other characters with underscores, so two columns
        # can become one input.
        same = plain.setdefault(re.sub(r"[^a-z0-9_]", "_", name.lower()), name)
        if keyword.iskeyword(name):
            found[name] = "is a keyword of Python"
        elif name == "self":
            found[name] = "is a name of TensorFlow's own"
        elif same != name:
            found[name] = f"is the same name as {same!r} for TensorFlow"
        elif re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is None:
            # TensorFlow replaces these characters and saves the model under other names. It refuses
            # all others.
            is_changed = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_./-]*", name)
            found[name] = (
                "is changed by TensorFlow"
                if is_changed
                else "has a character that TensorFlow does not take there"
            )
    return found
