"""Commands that look after the cache."""

from __future__ import annotations

import sys

import click

from kernforge.cli.choice import FindPlace
from kernforge.cli.output import json_option
from kernforge.errors import CacheError
from kernforge.report.documents import entry_document
from kernforge.report.errors import dump
from kernforge.report.terminal import amount, entry_line
from kernforge.store.local import Store
from kernforge.store.upkeep import collect, parse_size, remove_entries


@click.group()
def cache() -> None:
    """Look after the store: what it holds, what it costs, whether it is whole."""


def _store(place: FindPlace) -> Store:
    return Store(place().cache)


@cache.command("ls")
@json_option
@click.pass_obj
def cache_ls(place: FindPlace, *, as_json: bool) -> None:
    """List what the store holds."""
    entries = _store(place).entries()
    if as_json:
        click.echo(dump([entry_document(entry) for entry in entries]))
    for entry in () if as_json else entries:
        click.echo(entry_line(entry))


@cache.command("check")
@json_option
@click.pass_obj
def cache_check(place: FindPlace, *, as_json: bool) -> None:
    """Check the SHA-256 of every file of the store; changes nothing."""
    store = _store(place)
    faults = [(kind, key, store.fault_of(kind, key)) for kind, key in store.listing()]
    bad = [(kind, key, fault) for kind, key, fault in faults if fault]
    if as_json:
        click.echo(dump([{"kind": k, "key": key, "fault": fault} for k, key, fault in bad]))
    else:
        for kind, key, fault in bad:
            click.echo(f"{kind} {key}: {fault}")
        click.echo(f"{len(faults)} entries, {len(bad)} damaged")
    sys.exit(CacheError.exit_code if bad else 0)


@cache.command("rm")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.pass_obj
def cache_rm(place: FindPlace, keys: tuple[str, ...]) -> None:
    """Remove entries by key; the first 8 digits or more are enough where only one begins so."""
    for kind, key in remove_entries(_store(place), keys):
        click.echo(f"removed {kind} {key}")


@cache.command("gc")
@click.option("--keep", metavar="SIZE", default="20 GiB", show_default=True,
              help="Remove what was used longest ago until the cache is this small.")  # fmt: skip
@json_option
@click.pass_obj
def cache_gc(place: FindPlace, keep: str, *, as_json: bool) -> None:
    """Remove leftovers, quarantine, unused environments and the oldest entries."""
    removed = collect(_store(place), keep=parse_size(keep))
    if as_json:
        click.echo(dump([{"removed": name, "bytes": size} for name, size in removed]))
        return
    for name, size in removed:
        click.echo(f"removed {name}  {amount(size)}")
    click.echo(f"{amount(sum(size for _, size in removed))} freed")
