"""Small pieces of HTML. Whatever comes from the data is escaped here, on its way in."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape


def section(name: str, heading: str, content: str) -> str:
    return f'<section id="{escape(name)}"><h2>{escape(heading)}</h2>\n{content}\n</section>'


def figure(caption: str, alt: str, png: bytes) -> str:
    data = b64encode(png).decode("ascii")
    return (
        f'<figure><img alt="{escape(alt)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def listing(facts: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts) + "</dl>"


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], own: int | None = None) -> str:
    """Headers have their scope, so that a screen reader can say where a number stands."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = []
    for number, (first, *rest) in enumerate(rows):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        mark = ' class="own"' if number == own else ""
        body.append(f'<tr{mark}><th scope="row">{escape(first)}</th>{cells}</tr>')
    return (
        f'<div class="wide"><table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
