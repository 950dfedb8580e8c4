"""Random columns: the distributions of `outputColConfs`, as SQL over uniform draws."""

from __future__ import annotations

import math
import re

from bridge.exceptions import ConfigurationError

_CONF = re.compile(r"\s*([^:\s]+)\s*:\s*(\w+)\s*\(([^()]*)\)\s*")
_ARGUMENTS = {"uniform": 2, "uniform_open": 2, "gauss": 2, "poisson": 1}

# These are the name, the arguments, and the share of nulls.
Distribution = tuple[str, list[float], float]


def read_distributions(text: str, names: list[str]) -> dict[str, Distribution]:
    """Parse "name:dist(args);name:dist(args, nullper=p)"."""
    result = {}
    for part in filter(str.strip, text.split(";")):
        match = _CONF.fullmatch(part)
        if match is None or match[1] not in names:
            raise _conf_error(
                part, f"name:distribution(numbers) for one of the columns {', '.join(names)}"
            )
        result[match[1]] = _distribution(part, match[2], match[3])
    return result


def _distribution(part: str, name: str, arguments: str) -> Distribution:
    pieces = [piece.strip() for piece in arguments.split(",") if piece.strip()]
    nulls = 0.0
    try:
        if pieces and pieces[-1].replace(" ", "").startswith("nullper="):
            nulls = float(pieces.pop().split("=")[1])
        numbers = [float(piece) for piece in pieces]
    except ValueError:
        raise _conf_error(
            part, "numbers in the parentheses, optionally followed by nullper=p"
        ) from None
    if name == "weight_set":
        fits = (
            len(numbers) >= 2
            and len(numbers) % 2 == 0
            and min(numbers[1::2]) >= 0 < sum(numbers[1::2])
        )
    else:
        fits = len(numbers) == _ARGUMENTS.get(name)
    if name == "poisson" and fits:
        # The SQL has a case for each likely number, and their count grows with the mean.
        fits = 0 < numbers[0] <= 100
    if not fits or not 0 <= nulls <= 1:
        raise _conf_error(
            part,
            "uniform(low,high), uniform_open(low,high), gauss(mean,sd), poisson(mean up to 100) or"
            " weight_set(value,weight,..)",
        )
    return name, numbers, nulls


def _conf_error(part: str, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"RandomTableSourceBatchOp: parameter 'outputColConfs': expected {expected}, got"
        f" {part.strip()!r}"
    )


def expression(distribution: Distribution | None, draws: list[str]) -> str:
    """SQL of one column over uniform draws from [0, 1), whose names are added to `draws`."""

    def draw() -> str:
        draws.append(f"u{len(draws)}")
        return draws[-1]

    name, numbers, nulls = distribution or ("uniform", [0.0, 1.0], 0.0)
    if name in {"uniform", "uniform_open"}:
        value = f"{_literal(numbers[0])} + {draw()} * {_literal(numbers[1] - numbers[0])}"
    # This is the method of Box and Muller. A draw is less than 1, so 1 minus the draw is greater
    # than 0 and has a logarithm.
    elif name == "gauss":
        radius = f"SQRT({_literal(-2.0)} * LN({_literal(1.0)} - {draw()}))"
        value = (
            f"{_literal(numbers[0])} + {_literal(numbers[1])} * {radius} *"
            f" COS({_literal(2 * math.pi)} * {draw()})"
        )
    elif name == "poisson":
        value = _choice(
            draw(), [(float(k), weight) for k, weight in enumerate(poisson(numbers[0]))]
        )
    else:
        value = _choice(draw(), list(zip(numbers[::2], numbers[1::2])))
    if nulls:
        return f"CASE WHEN {draw()} < {_literal(nulls)} THEN CAST(NULL AS DOUBLE) ELSE {value} END"
    return value


def _choice(draw: str, weighted: list[tuple[float, float]]) -> str:
    total = sum(weight for _, weight in weighted)
    below = 0.0
    cases = []
    for value, weight in weighted[:-1]:
        below += weight
        cases.append(f"WHEN {draw} < {_literal(below / total)} THEN {_literal(value)}")
    # The last value needs no bound, so sums that rounding leaves below 1 do no harm.
    last = _literal(weighted[-1][0])
    return f"CASE {' '.join(cases)} ELSE {last} END" if cases else last


def poisson(mean: float) -> list[float]:
    probabilities = [math.exp(-mean)]
    # The rest of the probability, less than 1e-12, goes to the last number. The bound of 1000 ends
    # the loop if rounding keeps the sum lower.
    while sum(probabilities) < 1 - 1e-12 and len(probabilities) < 1000:
        probabilities.append(probabilities[-1] * mean / len(probabilities))
    return probabilities


def _literal(number: float) -> str:
    # A literal such as 0.5 is a DECIMAL in Flink's SQL, whose arithmetic rounds to its digits.
    return f"CAST({number!r} AS DOUBLE)"
