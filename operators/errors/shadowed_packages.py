"""Whether the packages that this one needs are ours: a file of the user's may have their name and come first on the path."""

from __future__ import annotations

import importlib.util

_NEEDED = {"akdl": "akdl.wire", "bridge": "bridge.exceptions"}


def check_neighbours() -> None:
    """Refuse to start with somebody else's `akdl` or `bridge`.

    Raises:
        ImportError: Names the file that hides ours, and what to do.
    """
    for package, module in _NEEDED.items():
        try:
            if importlib.util.find_spec(module) is not None:
                continue
        except ModuleNotFoundError:
            pass
        spec = importlib.util.find_spec(package)
        if spec is None:
            raise ImportError(f"the package {package!r}, which comes with operators, is not installed beside it")
        place = spec.origin or ", ".join(spec.submodule_search_locations or ())
        raise ImportError(
            f"{place} hides the package {package!r} that operators needs, because its folder comes first on Python's path: "
            "give it another name, or start the program from another folder"
        )


check_neighbours()  # before any of ours is imported
