"""Check that a user's file does not shadow the packages that operators needs."""

from __future__ import annotations

import importlib.util

_NEEDED = {"akdl": "akdl.wire", "bridge": "bridge.exceptions"}


def check_shadowing() -> None:
    for package, module in _NEEDED.items():
        try:
            if importlib.util.find_spec(module) is not None:
                continue
        except ModuleNotFoundError:
            pass
        spec = importlib.util.find_spec(package)
        if spec is None:
            raise ImportError(f"the package {package!r}, which is distributed with operators, is not installed: reinstall akdl")
        place = spec.origin or ", ".join(spec.submodule_search_locations or ())
        raise ImportError(
            f"{place} shadows the package {package!r} that operators needs, because its folder is first on Python's path: "
            "rename it, or start the program from another folder"
        )


check_shadowing()  # on import, before anything of ours
