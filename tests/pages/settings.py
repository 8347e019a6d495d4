"""The reference pages, generated from the settings model and the table of MM2's keys.

``python -m tests.pages.settings`` writes them into ``docs/reference/`` of the current folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
import json
from pathlib import Path
import sys
from textwrap import wrap
from typing import Any, Final

from drkit.config.changes import LIVE
from drkit.config.mm2.keys import CHOOSES_COPIES, CONNECT_KEYS, FLOW_KEYS, KeySupport, Mm2Key
from drkit.config.schema import described_schema
from drkit.config.tables.client_properties import CONNECTION, FLOW_FIELDS, IDLE

UNITS: Final = {"_seconds": "s", "_ms": "ms", "_bytes": "bytes", "_per_second": "bytes/s"}
"""Ending of a setting's name → its unit."""
_WIDTH: Final = 100
_TOML_HEADER: Final = """\
# Every setting of drkit with its default. Generated: python -m tests.pages.settings
#
# `#name = value` is a default: take the # away to change it. `#name` without a value has no default.
# Clusters and flows are examples; everything else may be left out.
"""
_TOML_TABLES: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    ("ClusterSettings", "[clusters.primary]", {"bootstrap_servers": "primary-1:9092, primary-2:9092"}),
    ("ClusterSettings", "[clusters.standby]", {"bootstrap_servers": "standby-1:9092"}),
    ("FlowSettings", "[[flows]]", {"source": "primary", "target": "standby"}),
    ("FailoverSettings", "[failover]", {}),
    ("FenceSettings", "[failover.fence]", {}),
    ("RepointSettings", "[[failover.repoint]]", {"kind": "print"}),
    ("DetectionSettings", "[detection]", {}),
    (
        "ListenerSettings",
        "[[detection.listeners]]",
        {"cluster": "primary", "name": "clients", "bootstrap_servers": "primary-1:9094"},
    ),
    ("WatchSettings", "[watch]", {}),
    ("FenceAgentSettings", "[fence_agent]", {}),
    ("ControlSettings", "[control]", {}),
    ("DrillSettings", "[[drills]]", {"name": "monthly", "kind": "bubble", "cron": "0 6 1 * *"}),
    ("DrillObjectives", "[drills.objectives]", {}),
    ("DrillLimits", "[drills.limits]", {}),
    ("MetricsSettings", "[metrics]", {}),
)
_TABLES_OF_THEIR_OWN: Final = frozenset({"repoint", "listeners", "fence", "objectives", "limits"})


def reference_toml() -> str:
    """The file's text. It loads unchanged, and gives the same settings with every default uncommented."""
    tables = described_schema()["$defs"]
    described: set[str] = set()
    parts = [_TOML_HEADER]
    for model, header, examples in _TOML_TABLES:
        schema = tables[model]
        parts += ["", header, *_settings(schema, examples, brief=model in described)]
        described.add(model)
    return "\n".join(parts) + "\n"


def unit(name: str) -> str:
    """The unit of a setting; empty without a unit."""
    return next((unit for ending, unit in reversed(UNITS.items()) if name.endswith(ending)), "")


def _settings(schema: Mapping[str, Any], examples: Mapping[str, str], *, brief: bool) -> Iterator[str]:
    for name, setting in schema["properties"].items():
        if name == "alias" or (brief and name not in examples) or name in _TABLES_OF_THEIR_OWN:
            continue
        if not brief:
            text = " ".join(setting["description"].replace("``", "`").split())
            yield from (f"# {line}" for line in wrap(text, _WIDTH, break_on_hyphens=False))
        value, empty = setting.get("default"), setting.get("type") == "object"
        measure = f"  # {unit(name)}" if unit(name) else ""
        if name in examples:
            yield f"{name} = {json.dumps(examples[name])}"
        elif value is None and not empty:
            yield f"#{name}{measure}"
        else:
            # As in JSON: texts, numbers, truth values and lists of texts look the same in TOML.
            yield f"#{name} = {json.dumps(value or {} if empty else value, ensure_ascii=False)}{measure}"


_TABLES: Final = {
    "ClusterSettings": "[clusters.ALIAS]",
    "FlowSettings": "[[flows]]",
    "FailoverSettings": "[failover]",
    "FenceSettings": "[failover.fence]",
    "RepointSettings": "[[failover.repoint]]",
    "DetectionSettings": "[detection]",
    "ListenerSettings": "[[detection.listeners]]",
    "WatchSettings": "[watch]",
    "FenceAgentSettings": "[fence_agent]",
    "ControlSettings": "[control]",
    "DrillSettings": "[[drills]]",
    "DrillObjectives": "[drills.objectives]",
    "DrillLimits": "[drills.limits]",
    "MetricsSettings": "[metrics]",
}
_HEADER: Final = "<!-- generated: python -m tests.pages.settings -->\n"

_CONFIGURATION: Final = """# Configuration

drkit reads the file named by `--config`, else by `DRKIT_CONFIG`, else `./drkit.toml`. A name that ends in
`.properties` is read as MirrorMaker 2's file: see [Coming from MirrorMaker
2](coming-from-mirrormaker-2.md).

- `drkit config init --both-ways` writes a file to begin with: two clusters, and a flow in each direction.
- `drkit config check` names every problem with its line, and notes what is accepted but not acted on. It
  asks no broker: it also refuses an unknown SASL mechanism, missing credentials, and files that cannot be
  read. `--connect` asks the brokers, too.
- `drkit config show` prints what differs from the defaults, with its origin: file and line, variable or
  flag. `--all` prints every setting. Secrets are hidden.
- [drkit.reference.toml](drkit.reference.toml) is a complete file to copy from.

## In an editor

`drkit config schema` prints the JSON schema of this file: names, types, choices, defaults and meanings.

```sh
drkit config schema > drkit.schema.json
```

Then write this comment as the first line of `drkit.toml`:

```toml
#:schema ./drkit.schema.json
```

Editors with taplo read it: *Even Better TOML* for Visual Studio Code, and the language server `taplo lsp` for
others. They complete settings, show their meaning, and mark unknown names and wrong types while you type.
`taplo lint drkit.toml` does the same in a pipeline. The schema knows single settings; `drkit config check`
also checks what they mean together. Write the schema again after an upgrade.

## Which value counts

The strongest first:

1. a flag of the command: `--set 'flows.primary->standby.tasks=4'`, `--set
   clusters.standby.client.client.id=me`, `--set failover.rpo_seconds=60`; a flow also by its number in the
   file (`flows.0.tasks`), lists with commas. May be repeated. A secret is refused, as others see command
   lines: give it by the environment or a file. `--flow`, `--master`, `--once` and their like say what a
   command does and are no settings;
2. a variable of the environment for one setting: `DRKIT_FLOWS__SOURCE__TARGET__SETTING`,
   `DRKIT_CLUSTERS__ALIAS__BOOTSTRAP_SERVERS`, `DRKIT_CLUSTERS__ALIAS__CLIENT__SASL_PASSWORD` (the property
   `sasl.password`), `DRKIT_FLOWS__SOURCE__TARGET__TARGET_PRODUCER__SASL_PASSWORD`,
   `DRKIT_FAILOVER__SETTING`, `DRKIT_METRICS__PORT`. Aliases are written in capitals, with `_` for `-`;
   lists with commas. The cluster or flow must be in the file; an unknown name is an error;
3. the file. In any text of it, `${env:NAME}` is a variable, `${file:PATH}` the content of a file and
   `${file:PATH:KEY}` a key of a properties file; relative paths start at the configuration file;
4. the default below.

## While it runs

`drkit replicate` looks at its file every second, and at once on `SIGHUP` (then it also rereads the
variables and files that it names). The file is checked as at the start: an invalid one is refused, with the
reason, and the previous settings stay (event `config_refused`). Otherwise each flow takes these at once
(event `config_changed`):

@LIVE@

Any other change waits for a restart and is named (event `config_needs_restart`): other settings of flows,
how clusters are reached, `[metrics]`, and `rpo_seconds` of `[failover]`.

## Client properties of one role

A cluster's `client` holds for all that drkit does there. `source_consumer` and `target_producer` of a flow
win over it for the connections of copy tasks, `source_admin` and `target_admin` for all else (topics,
settings, ACLs, the flow's own state). They take Kafka's property names; an unknown one is an error. These
act, and everything that begins with `security.`, `sasl.` or `ssl.`:

@CONNECTION@

Sizes of requests are settings of the flow: @FIELDS@. Other properties of Kafka's clients are accepted, do
nothing and are noted by `drkit config check`:

@IDLE@

`drkit verify` reads records as copy tasks do; `drkit status` and `drkit translate` look as the driver does.
"""

_COMING: Final = """# Coming from MirrorMaker 2

`drkit … --config mm2.properties` reads MirrorMaker 2's own settings file. What a flow has as `A->B.key`
wins over the same key for all flows. A flow runs when `A->B.enabled = true`; topics are named as in
MirrorMaker 2 (`A.orders`) unless `replication.policy.class` ends in `IdentityReplicationPolicy`.

A key that does nothing here, or not yet, is said by `drkit config check` as a note, with its line and the
reason. An unknown key is an error that names the closest one.

## How to switch

1. `drkit config check --config mm2.properties`: every note is something that MirrorMaker 2 did and drkit
   does otherwise, or not yet. `drkit config show` prints what each flow got, and from which line; `drkit
   config check --connect` also asks both clusters, and names permissions that are missing.
2. `drkit config show --plan --config mm2.properties --set 'flows.A->B.takeover_from_mm2=true'` lists each
   change that drkit would make to topics of the targets: only what "What differs" below explains.
3. Stop MirrorMaker 2, all of its processes: drkit refuses to copy into topics that it still writes.
4. `drkit replicate --takeover-from-mm2 --config mm2.properties` continues after the last record that
   MirrorMaker 2 copied, proven by content ([Taking over](../how-to/takeover-from-mm2.md)). Then
   `drkit verify --config mm2.properties`.

MirrorMaker 2's own topics (`mm2-…`, `….checkpoints.internal`) may stay: drkit does not copy them.

## What differs

- **Exactly once**, always: there is nothing to enable, and no `read_committed` to set.
- **Where a key is absent**, MirrorMaker 2's own default counts for what one relies on: naming,
  `topics.exclude`, `replication.factor` (2), `config.properties.exclude`, `tasks.max` (1), sync of
  configurations and ACLs. Otherwise drkit's does (see [Configuration](configuration.md)): new topics are
  looked for every 10 s instead of 600 s, configurations compared every 60 s instead of 600 s.
- **Changes of the file** are taken while drkit runs (see [Configuration](configuration.md)); MirrorMaker 2
  needs a restart.
- **`--clusters`** ("consume from remote, produce to local"): start drkit beside the target and name the
  flows that end there with `--flow 'A->B'`, once for each.
- **One process runs a flow.** More `tasks.max`, or Spark workers with `--master`, make it faster; a second
  process for the same flow is refused, and told who runs it.
- **Batches travel as they are**: codec, timestamps and headers stay, so `compression.type`, `linger.ms` and
  `batch.size` do nothing, and copies get the `message.timestamp.…` settings that accept each timestamp.
- **A comment after a value** is a part of the value in this format. Kafka's documentation has such lines;
  drkit leaves the comment out of lists and switches, and notes it.

## Clusters

| key | here |
|---|---|
| `clusters` | works: the aliases, with commas |
| `A.bootstrap.servers` | works |
| `A.` and a client property | works: `client` of the cluster; others need a role |
| `security.…`, `ssl.…`, `sasl.…` without alias | works: for all clusters; `A.` wins |
| `${env:NAME}`, `${file:PATH:KEY}` in a value | works |
"""

_OVERRIDES: Final = """
## Client overrides

`consumer.…`, then `A.consumer.…`, then `A->B.consumer.…`, then `A->B.source.consumer.…`: the later wins.
The same for `producer` (`target.producer`) and `admin` (`source.admin`, `target.admin`). A name that
Kafka's client does not have is an error.

"""
_ROLES_HERE: Final = "`source_consumer`, `target_producer`, `source_admin`, `target_admin`"


def configuration() -> str:
    """The page of drkit.toml: every table, key, type, default, unit and meaning."""
    tables = described_schema()["$defs"]
    parts = [_HEADER, _filled(_CONFIGURATION)]
    for model, title in _TABLES.items():
        schema = tables[model]
        needed = schema.get("required", ())
        rows = [
            (f"`{name}`", _type(found), "needed" if name in needed else _default(found), unit(name),
             found.get("description", ""))
            for name, found in schema["properties"].items()
            if name != "alias"
        ]  # fmt: skip
        parts += [f"\n## `{title}`\n\n{schema['description'].replace('``', '`')}\n\n"]
        parts += _table(("key", "type", "default", "unit", "meaning"), rows)
    return "".join(parts)


def _filled(text: str) -> str:
    fields = (f"`{name}` is `{field}`" for (_, name), field in FLOW_FIELDS.items())
    idle = "".join(_table(("property", "why not"), ((f"`{n}`", i.why) for n, i in IDLE.items())))
    return (
        text.replace("@LIVE@", ", ".join(f"`{name}`" for name in LIVE))
        .replace("@CONNECTION@", ", ".join(f"`{name}`" for name in sorted(CONNECTION)))
        .replace("@FIELDS@", ", ".join(fields))
        .replace("@IDLE@", idle.rstrip())
    )


def coming_from_mm2() -> str:
    """The page for users of MirrorMaker 2, key by key."""
    flow = [("`A->B.enabled`", "`false`", "works", "", "only enabled flows run")]
    flow += [(f"`{k.name}`", _code(k.default), k.effect.value, _code(k.field), _remark(k)) for k in FLOW_KEYS]
    overrides = [(f"`{role}.{name}`", "works", f"`{to}`") for (role, name), to in FLOW_FIELDS.items()]
    connection = ", ".join(f"`{name}`" for name in sorted(CONNECTION))
    overrides.append((f"{connection}, `security.…`, `sasl.…`, `ssl.…`", "works", _ROLES_HERE))
    overrides += [(f"`{name}`", KeySupport.NOTHING.value, idle.why) for name, idle in IDLE.items()]
    overrides.append(
        ("any other of Kafka's", KeySupport.NOTHING.value, "only Java's clients have what it steers")
    )
    connect = [(f"`{name}`, `{name}.…`", why) for name, why in CONNECT_KEYS.items()]
    refused = [(f"`{name}`, `{name}.…`", to_do) for name, to_do in CHOOSES_COPIES.items()]
    return "".join([
        _HEADER, _COMING,
        "\n## Flows\n\n", *_table(("key", "default of MM2", "here", "in drkit.toml", "remark"), flow),
        _OVERRIDES,
        *_table(("override", "here", "in drkit.toml"), overrides),
        "\n## Keys of Kafka Connect: accepted, they do nothing here\n\n",
        *_table(("key", "why"), connect),
        "\n## Keys that change what is copied: refused, except with Kafka's own default filters\n\n",
        *_table(("key", "what to do"), refused),
    ])  # fmt: skip


PAGES: Final = {
    "configuration.md": configuration,
    "coming-from-mirrormaker-2.md": coming_from_mm2,
    "drkit.reference.toml": reference_toml,
}


def main(folder: Path) -> None:
    """Write the pages into a folder."""
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
    no_text = value in (None, [], {}) or isinstance(value, dict)
    return "" if no_text else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(found: Mapping[str, Any]) -> str:
    if choices := [c for c in found.get("anyOf", ()) if c.get("type") != "null"]:
        return " or ".join(map(_type, choices))
    if "$ref" in found:
        return "table"
    if "enum" in found:
        return " or ".join(f'`"{v}"`' for v in found["enum"])
    if "exclusiveMinimum" in found or "minimum" in found:
        bound = f"> {found['exclusiveMinimum']}" if "exclusiveMinimum" in found else f"≥ {found['minimum']}"
        return f"{found['type']} {bound}".replace("> 0.0", "> 0")
    if found.get("type") == "array":
        return "array of tables" if "$ref" in found["items"] else "array of strings"
    return {"object": "table"}.get(kind := str(found.get("type", "")), kind)


if __name__ == "__main__":
    main(Path("docs/reference"))
