"""What the variables of a table are called, in which order and units: the same in all of its files."""

from __future__ import annotations

from dataclasses import replace

from ..errors import SolidError
from .names import is_taken, label, split_units
from .parts import Part
from .records import Columns, Header


def names_of_variables(columns: Columns) -> tuple[str, ...]:
    wanted = [label(value) for value in columns.values]
    names: list[str] = []
    for first in wanted:
        name, again = first, 2
        while name in names or is_taken(name, wanted):
            name, again = f"{first}_{again}", again + 1
        names.append(name)
    return tuple(names)


def in_order(part: Part, variables: tuple[str, ...], first: str) -> Part:
    """The part with its variables in the order of the first file's."""
    own = names_of_variables(part.columns)
    if set(own) != set(variables):
        raise SolidError(
            f"{part.source.name} has variables {', '.join(own)}, {first} {', '.join(variables)}; "
            "name those to read with --columns value=NAME"
        )
    order = [own.index(name) for name in variables]
    values = tuple(part.columns.values[v] for v in order)
    errors = tuple(part.columns.errors[v] for v in order) if part.columns.errors else ()
    return replace(part, columns=replace(part.columns, values=values, errors=errors))


def called_by_user(variables: tuple[str, ...], name: str | None, where: str) -> tuple[str, ...]:
    """The variables under the names that the user gives them.

    >>> called_by_user(("pm",), "PM2.5", "a.csv"), called_by_user(("pm", "t"), "t=air temperature", "a.csv")
    (('PM2.5',), ('pm', 'air_temperature'))
    """
    if name is None:
        return variables
    pairs = [part.partition("=") for part in name.split(",")] if "=" in name else [(variables[0], "=", name)]
    given = {old: new for old, _, new in pairs}
    if "=" not in name and len(variables) > 1:
        which = f"name the one to read (--columns value={variables[0]}), or write --name {variables[0]}={name}"
        raise SolidError(f"{where} has variables {', '.join(variables)}, and '{name}' can be but one; {which}")
    for old in given:
        if old not in variables:
            raise SolidError(f"{where} has no variable '{old}' to call {given[old]}; it has {', '.join(variables)}")
    called = tuple(label(given[one]) if one in given else one for one in variables)
    wrong = [one for one in called if is_taken(one, called) or called.count(one) > 1]
    if wrong:
        raise SolidError(f"--name {name}: '{wrong[0]}' is the name of another thing in maps; choose another")
    return called


def find_units(part: Part, given: str | None) -> tuple[str, ...]:
    """By the user's word, else by attribute or header."""
    count = len(part.columns.values)
    if given is not None:
        words = [word.strip() for word in given.split(",")]
        if len(words) not in (1, count):
            raise SolidError(f"units '{given}' are {len(words)}, variables {count}; give one unit, or one for each")
        return tuple(words * count if len(words) == 1 else words)
    header: dict[str, Header] = {h.name: h for h in part.source.headers}
    return tuple(header[name].units or split_units(name)[1] for name in part.columns.values)
