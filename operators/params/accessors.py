"""Setters and getters of each kind of operator; `accessors.pyi`, made by scripts/build_stubs.py,
shows them to editors.
"""

from operators.params import catalog, data_catalog
from operators.params.param import Param, with_params

# Each public tuple of parameters in a catalog becomes a class, such as TRAIN the class TrainParams.
ALL = tuple(
    with_params(
        f"{name.title().replace('_', '')}Params", f"Accessors of the parameters {name}.", params
    )
    for catalogue in (catalog, data_catalog)
    for name, params in vars(catalogue).items()
    if name[0] != "_" and isinstance(params, tuple) and isinstance(params[0], Param)
)
# Operators import these classes by name, so the names have to be attributes of the module. mypy and
# editors know them from `accessors.pyi`.
globals().update((kind.__name__, kind) for kind in ALL)
