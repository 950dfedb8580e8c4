"""Check that a user's file does not shadow the packages that operators needs.

A file `bridge.py` next to the user's program is first on Python's path, and every import of ours
would fail with a message about a missing submodule.
"""

from __future__ import annotations

import importlib.util

_NEEDED = {"akdl": "akdl.wire", "bridge": "bridge.exceptions"}


def check_shadowing() -> None:
    """Refuse to go on if a package of ours is missing or shadowed.

    Raises:
        ImportError: The message names the file that shadows the package.
    """
    for package, module in _NEEDED.items():
        try:
            # The search of a submodule imports the package above it, which is a user's file if it
            # is shadowed. Only the submodule tells the two apart.
            if importlib.util.find_spec(module) is not None:
                continue
        except ModuleNotFoundError:
            pass
        spec = importlib.util.find_spec(package)
        if spec is None:
            raise ImportError(
                f"the package {package!r}, which is distributed with operators, is not installed:"
                " reinstall akdl"
            )
        place = spec.origin or ", ".join(spec.submodule_search_locations or ())
        raise ImportError(
            f"{place} shadows the package {package!r} that operators needs, because its folder is"
            " first on Python's path: rename it, or start the program from another folder"
        )


# The check runs on import, before anything else of akdl is imported.
check_shadowing()
