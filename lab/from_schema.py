"""Values that a JSON Schema allows, and values that are nearly allowed, drawn for fuzzers."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from kemu.emulator.text.units import DURATION, RATE, THROUGHPUT

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 1 << 31, (1 << 63) - 1, 1 << 64, -(1 << 63), 0.5, float("nan"), "", "c1", "\x1b]0;x\x07", "²",
    "-1s", "1e9s", "99999999999999999999", "os:system", "__consumer_offsets", [], [0], ["x", 1], {}, {"a": 1}, "[", "0",
)  # fmt: skip
"""Values that a schema rarely allows at their place."""
_TEXTS: Mapping[str, tuple[str, ...]] = {
    DURATION: ("0", "1us", "250ms", "1s", "2s", "7s", "20s", "1m", "1m30s", "0.5s", "1h", "168h", "169h", "9999999h"),
    RATE: ("0/s", "1/s", "100/s", "600/m", "1000000/s", "99999999999/s"),
    THROUGHPUT: ("1B/s", "50MB/s", "1.5kB/s", "10GB/s"),
}
_DEEPEST = 6


class SchemaValues:
    """Draws values.

    Args:
        schema: a schema with ``$defs``.
        names: key -> names that exist, for keys with strings of any kind.
        wrong: the share of odd values among all drawn single values.
    """

    def __init__(self, schema: Mapping[str, Any], names: Mapping[str, Sequence[str]], wrong: float = 0.0) -> None:
        self._defs: Mapping[str, Any] = schema["$defs"]
        self._names = names
        self.wrong = wrong

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """Return the schema that a reference names, or the schema itself."""
        if not isinstance(schema, Mapping):
            return {}
        found: Mapping[str, Any] = self._defs[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        return found

    def value(self, schema: Any, draws: Random, key: str = "", depth: int = 0) -> Any:
        """Draw a value of a schema; ``key`` is the key of the value."""
        schema = self.resolved(schema)
        if draws.random() < self.wrong:
            return draws.choice(ODD)
        if "enum" in schema:
            return draws.choice(list(schema["enum"]))
        if "anyOf" in schema:
            return self.value(draws.choice(schema["anyOf"]), draws, key, depth)
        match schema.get("type"):
            case "boolean":
                return draws.random() < 0.5
            case "integer":
                least, most = schema.get("minimum", 0), schema.get("maximum", 1 << 31)
                return draws.choice((least, min(most, least + 1), min(most, max(least, draws.randrange(1, 9))), most))
            case "array":
                count = schema.get("minItems", 0) + draws.randrange(3)
                return [self.value(schema.get("items", {}), draws, key, depth + 1) for _ in range(count)]
            case "object":
                return self.table(schema, draws, depth)
        known = _TEXTS.get(schema.get("pattern", "")) or self._names.get(key) or ("c1", "b0", "g", "orders", "x")
        return draws.choice(known)

    def table(self, schema: Any, draws: Random, depth: int = 0) -> dict[str, Any]:
        """Draw a table with all required keys, and some of the other keys."""
        schema = self.resolved(schema)
        properties: Mapping[str, Any] = schema.get("properties", {})
        required = schema.get("required", ())
        others = [name for name in properties if name not in required]
        chosen = draws.sample(others, min(len(others), draws.choice((0, 1, 2, 4)))) if depth < _DEEPEST else []
        made = {name: self.value(properties[name], draws, name, depth + 1) for name in (*required, *chosen)}
        if isinstance(schema.get("additionalProperties"), Mapping) and depth < _DEEPEST:
            rows = range(schema.get("minProperties", 0) + draws.randrange(2))
            made |= {
                draws.choice(("g", "orders", "x", "y")): self.value(
                    schema["additionalProperties"], draws, "", depth + 1
                )
                for _ in rows
            }
        if draws.random() < self.wrong:
            made[draws.choice(("x", "", "host", "members", "²"))] = draws.choice(ODD)
        return made
