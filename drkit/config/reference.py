"""The reference pages, made from the settings model and the table of MM2's keys.

``python -m drkit.config.reference`` writes them into ``docs/`` of the current folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import json
from pathlib import Path
import sys
from typing import Any, Final

from drkit.config.mm2_keys import CLIENT_FIELDS, CONNECT_KEYS, FLOW_KEYS, ONE_CONNECTION, Effect, Mm2Key
from drkit.config.settings import Settings

_TABLES: Final = {
    "ClusterSettings": "[clusters.ALIAS]",
    "FlowSettings": "[[flows]]",
    "FailoverSettings": "[failover]",
    "RepointSettings": "[[failover.repoint]]",
    "DrillSettings": "[[drills]]",
}
_UNITS: Final = {"_seconds": "s", "_ms": "ms", "_bytes": "bytes"}
_HEADER: Final = "<!-- generated: python -m drkit.config.reference -->\n"

_CONFIGURATION: Final = """# Configuration

drkit reads the file named by `--config`, else by `DRKIT_CONFIG`, else `./drkit.toml`. A name that ends in
`.properties` is read as MirrorMaker 2's file: see [Coming from MirrorMaker 2](coming-from-mirrormaker-2.md).

`drkit config check` names every problem and notes what is accepted but not acted on; `drkit config show`
prints each value with its origin, secrets hidden.

Which value counts, the strongest first:

1. a variable of the environment for one setting: `DRKIT_FLOWS__SOURCE__TARGET__SETTING`,
   `DRKIT_CLUSTERS__ALIAS__BOOTSTRAP_SERVERS`, `DRKIT_CLUSTERS__ALIAS__CLIENT__SASL_PASSWORD` (the property
   `sasl.password`), `DRKIT_FAILOVER__SETTING`. Aliases are written in capitals, with `_` for `-`; lists with
   commas. The cluster or flow must stand in the file; an unknown name is an error;
2. the file. In any text of it, `${env:NAME}` is a variable, `${file:PATH}` the content of a file and
   `${file:PATH:KEY}` a key of a properties file; relative paths start at the configuration file;
3. the default below.
"""

_COMING: Final = """# Coming from MirrorMaker 2

`drkit … --config mm2.properties` reads MirrorMaker 2's own settings file. What a flow has as `A->B.key`
wins over the same key for all flows. A flow runs when `A->B.enabled = true`; topics are named as in
MirrorMaker 2 (`A.orders`) unless `replication.policy.class` ends in `IdentityReplicationPolicy`.

A key that does nothing here, or not yet, is said by `drkit config check` as a note, with its line and the
reason. An unknown key is an error that names the closest one. Where a key is absent, drkit's own default
counts (see [Configuration](configuration.md)), except for the naming.

## Clusters

| key | here |
|---|---|
| `clusters` | works: the aliases, with commas |
| `A.bootstrap.servers` | works |
| `A.` and a client property | works: `client` of the cluster |
| `security.…`, `ssl.…`, `sasl.…` without alias | works: for all clusters; `A.` wins |
| `${env:NAME}`, `${file:PATH:KEY}` in a value | works |
"""

_OVERRIDES: Final = """
## Client overrides

`consumer.…`, then `A.consumer.…`, then `A->B.consumer.…`, then `A->B.source.consumer.…`: the later wins.
The same for `producer` (`target.producer`) and `admin`.

"""


def configuration() -> str:
    """The page of drkit.toml: every table, key, type, default, unit and meaning."""
    definitions = Settings.model_json_schema()["$defs"]
    parts = [_HEADER, _CONFIGURATION]
    for model, title in _TABLES.items():
        schema = definitions[model]
        needed = schema.get("required", ())
        rows = [
            (f"`{name}`", _type(found), "needed" if name in needed else _default(found), _unit(name),
             found.get("description", ""))
            for name, found in schema["properties"].items()
            if name != "alias"
        ]  # fmt: skip
        parts += [f"\n## `{title}`\n\n{schema['description'].replace('``', '`')}\n\n"]
        parts += _table(("key", "type", "default", "unit", "meaning"), rows)
    return "".join(parts)


def coming_from_mm2() -> str:
    """The page for users of MirrorMaker 2, key by key."""
    flow = [("`A->B.enabled`", "`false`", "works", "", "only enabled flows run")]
    flow += [(f"`{k.name}`", _code(k.default), k.effect.value, _code(k.field), _remark(k)) for k in FLOW_KEYS]
    overrides = [(f"`{role}.{name}`", "works", f"`{to}`") for (role, name), to in CLIENT_FIELDS.items()]
    overrides.append(("all others", Effect.LATER.value, ONE_CONNECTION.replace("<", "`<").replace(">", ">`")))
    connect = [(f"`{name}`, `{name}.…`", why) for name, why in CONNECT_KEYS.items()]
    return "".join([
        _HEADER, _COMING,
        "\n## Flows\n\n", *_table(("key", "default of MM2", "here", "in drkit.toml", "remark"), flow),
        _OVERRIDES,
        *_table(("override", "here", "in drkit.toml"), overrides),
        "\n## Keys of Kafka Connect: accepted, they do nothing here\n\n",
        *_table(("key", "why"), connect),
    ])  # fmt: skip


PAGES: Final = {"configuration.md": configuration, "coming-from-mirrormaker-2.md": coming_from_mm2}


def main(folder: Path) -> None:
    """Write both pages into a folder."""
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")
        sys.stdout.write(f"{folder / name}\n")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(_cell(c) for c in line) + " |\n" for line in lines]


def _cell(text: str) -> str:
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _remark(key: Mm2Key) -> str:
    agreed = " or ".join(f"`{v}`" for v in key.agreed)
    return f"{key.why}; {agreed} is what drkit does" if agreed else key.why


def _default(found: Mapping[str, Any]) -> str:
    value = found.get("default")
    return "" if value in (None, [], {}) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _unit(name: str) -> str:
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def _type(found: Mapping[str, Any]) -> str:
    if choices := [c for c in found.get("anyOf", ()) if c.get("type") != "null"]:
        return _type(choices[0])
    if "enum" in found:
        return " or ".join(f'`"{v}"`' for v in found["enum"])
    if "exclusiveMinimum" in found or "minimum" in found:
        bound = f"> {found['exclusiveMinimum']}" if "exclusiveMinimum" in found else f"≥ {found['minimum']}"
        return f"{found['type']} {bound}".replace("> 0.0", "> 0")
    if found.get("type") == "array":
        return "array of tables" if "$ref" in found["items"] else "array of strings"
    return {"object": "table"}.get(kind := str(found.get("type", "")), kind)


if __name__ == "__main__":
    main(Path("docs"))
