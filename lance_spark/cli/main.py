"""The commands and their arguments. Exit code 0: done; 1: `verify` has findings; 2: an error, reported in one line.

`versions` reads manifests alone. `upgrade` is the one command that changes a table; `warm` has none.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from lance_spark.cli.diff import describe_diff, diff_tree
from lance_spark.cli.inspect import describe, inspect_tree
from lance_spark.cli.opening import CommandTarget, open_target
from lance_spark.cli.output import columns_of, print_error, print_json, print_tree, progress_to
from lance_spark.cli.verify import verify_target
from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.kernels.warm import compile_for_this_machine
from lance_spark.partitioned.history import history
from lance_spark.partitioned.maintenance.upgrade import commit_partition_upgrade
from lance_spark.table.maintenance.upgrade import commit_upgrade, upgrade_version


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, by default with the arguments of the process; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        sys.stdout.flush()
    except LanceError as error:
        print_error(str(error))
        return 2
    except BrokenPipeError:
        # The reader of the pipe has enough. Python would complain about it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lance_spark", description="Looks into Lance tables, and upgrades their files."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    inspect = _command(commands, "inspect", "show what a version of a table is made of", _inspect)
    inspect.add_argument("--fragments", action="store_true", help="list fragments and their files")
    inspect.add_argument("--pages", action="store_true", help="also open each file and list its columns and pages")
    verify = _command(commands, "verify", "read all of a version and report what is wrong", _verify)
    for command in (inspect, verify):
        command.add_argument("--version", type=int, metavar="N")
        command.add_argument("--branch", metavar="NAME")
        command.add_argument("--tag", metavar="NAME")
    upgrade = _command(commands, "upgrade", "rewrite a table in a newer file version", _upgrade)
    upgrade.add_argument("--to", default="2.2", metavar="VERSION", help="2.0, 2.1 or 2.2 (default)")
    upgrade.add_argument("--branch", metavar="NAME")
    versions = _command(commands, "versions", "list the versions of a table", _versions)
    versions.add_argument("--limit", type=int, metavar="N", help="only the newest N")
    diff = _command(commands, "diff", "compare two versions of a table", _diff)
    diff.add_argument("a", type=int, metavar="A")
    diff.add_argument("b", type=int, metavar="B")
    for command in (versions, diff):
        command.add_argument("--branch", metavar="NAME")
    help_text = "compile what reads and writes need for this machine's processor"
    commands.add_parser("warm", help=help_text, description=help_text).set_defaults(run=_warm)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, help_text: str, run: object
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=help_text, description=help_text)
    command.add_argument("uri", metavar="URI", help="a path or URI of a table")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--storage", action="append", default=[], metavar="KEY=VALUE", help="a storage option")
    command.set_defaults(run=run)
    return command


def _target(parsed: argparse.Namespace, version: int | None = None) -> CommandTarget:
    return open_target(
        parsed.uri,
        version=version if version is not None else getattr(parsed, "version", None),
        branch=parsed.branch,
        tag=getattr(parsed, "tag", None),
        storage_options=_storage_options(parsed.storage),
    )


def _storage_options(given: Sequence[str]) -> dict[str, str]:
    options = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"--storage takes KEY=VALUE, got {key!r} without a value")
        options[key] = value
    return options


def _inspect(parsed: argparse.Namespace) -> int:
    fragments = parsed.fragments or parsed.pages
    document = describe(_target(parsed), fragments=fragments, pages=parsed.pages)
    if parsed.json:
        print_json(document, sys.stdout)
    else:
        print_tree(inspect_tree(document), sys.stdout)
    return 0


def _verify(parsed: argparse.Namespace) -> int:
    target = _target(parsed)
    progress = progress_to(sys.stderr)
    findings = []
    for finding in verify_target(target, progress):
        findings.append(finding)
        if not parsed.json:
            progress("")
            print(finding.line(), flush=True)  # noqa: T201
    progress("")
    if parsed.json:
        print_json(
            {"uri": target.uri, "version": target.version, "findings": [f.document() for f in findings]}, sys.stdout
        )
    elif not findings:
        sys.stdout.write(f"version {target.version}: nothing wrong was found\n")
    return 1 if findings else 0


def _versions(parsed: argparse.Namespace) -> int:
    document = describe_versions(_target(parsed), parsed.limit)
    if parsed.json:
        print_json(document, sys.stdout)
    else:
        sys.stdout.write("\n".join(columns_of(version_rows(document))) + "\n")
    return 0


def _upgrade(parsed: argparse.Namespace) -> int:
    document = upgrade_target(_target(parsed), parsed.to, progress_to(sys.stderr))
    if parsed.json:
        print_json(document, sys.stdout)
    else:
        sys.stdout.write(upgrade_line(document) + "\n")
    return 0


def _warm(parsed: argparse.Namespace) -> int:
    progress = progress_to(sys.stderr)
    number = compile_for_this_machine(progress)
    progress("")
    sys.stdout.write(f"{number} kernels were compiled\n")
    return 0


def _diff(parsed: argparse.Namespace) -> int:
    document = describe_diff(_target(parsed, parsed.a), _target(parsed, parsed.b))
    if parsed.json:
        print_json(document, sys.stdout)
    else:
        print_tree(diff_tree(document), sys.stdout)
    return 0


def describe_versions(target: CommandTarget, limit: int | None) -> dict[str, Any]:
    """The versions, oldest first; keys as in docs/reference/command-line.md."""
    partitioned = target.partitioned
    versions = target.dataset.versions(limit) if partitioned is None else history(partitioned, limit)[::-1]
    return {
        "uri": target.uri,
        "branch": target.dataset.branch,
        "versions": [
            {
                "version": entry.version,
                "timestamp": entry.timestamp.isoformat(),
                "operation": entry.operation,
                "rows": None if entry.content is None else entry.content.num_rows,
                "deleted_rows": None if entry.content is None else entry.content.num_deleted_rows,
                "fragments": None if entry.content is None else entry.content.num_fragments,
                "bytes": None if entry.content is None else entry.content.num_bytes,
                "message": entry.message,
                "writer": None if entry.writer is None else f"{entry.writer.library} {entry.writer.version}",
            }
            for entry in versions
        ],
    }


def version_rows(document: dict[str, Any]) -> list[list[object]]:
    """The lines of the table that is printed, titles first."""
    keys = ["version", "timestamp", "operation", "rows", "deleted_rows", "fragments", "bytes", "message"]
    return [list(keys), *([entry[key] for key in keys] for entry in document["versions"])]


def upgrade_target(target: CommandTarget, to: str, show: Callable[[str], None]) -> dict[str, Any]:
    """Upgrades the newest version; keys as in docs/reference/command-line.md.

    Args:
        show: shows how far the upgrade is.

    Raises: as `Dataset.upgrade_files`.
    """
    version = upgrade_version(to)
    num_done = 0

    def progress(done: int, total: int) -> None:
        nonlocal num_done
        num_done += 1
        show(f"fragment {done} of {total}")

    if target.partitioned is None:
        before = target.dataset.version
        upgraded = commit_upgrade(target.dataset.location, target.dataset.manifest, version, progress=progress).version
    else:
        before = target.partitioned.version
        upgraded = commit_partition_upgrade(target.partitioned, version, progress=progress).version
    show("")
    return {
        "uri": target.uri,
        "file_version": version.value,
        "version": upgraded,
        "changed": upgraded != before,
        "fragments_rewritten": num_done,
    }


def upgrade_line(document: dict[str, Any]) -> str:
    """The result in one line."""
    if not document["changed"]:
        return f"version {document['version']}: all files are of version {document['file_version']} or newer"
    return (
        f"version {document['version']}: {document['fragments_rewritten']} fragments rewritten in file version "
        f"{document['file_version']}"
    )
