"""Markdown on a terminal: links are commands, and a wide table becomes a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, TableElement
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

_INDENT = 2


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {**Heading.LEVEL_ALIGN, "h1": "left"}


class _Code(CodeBlock):
    """Code as it is: no line of it is broken."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in str(self.text).rstrip().splitlines():
            yield Text(f"{'':{_INDENT}}{line}", style="cyan", no_wrap=True, overflow="ignore")


class _Item(ListItem):
    """An item of a list; rich's own cuts a long line of code in it."""

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._lines(" • ", console, options)

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        yield from self._lines(f" {number:>{len(str(last_number))}} ", console, options)

    def _lines(self, mark: str, console: Console, options: ConsoleOptions) -> RenderResult:
        inner = options.update(width=options.max_width - len(mark))
        for number, line in enumerate(Segment.split_lines(console.render(self.elements, inner))):
            yield Segment(" " * len(mark) if number else mark, console.get_style("markdown.item.number"))
            yield from line
            yield Segment.line()


class _Table(TableElement):
    """A table that fits, else each row as a list below its first cell."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        (table,) = super().__rich_console__(console, options)
        heads = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        wide = Measurement.get(console, options.update(width=10_000), table).maximum > options.max_width  # type: ignore[arg-type]  # rich yields a Table
        if not wide:
            yield table
            return
        for row in self.body.rows if self.body else ():
            first, *others = [cell.content for cell in row.cells]
            yield Text.assemble((first.plain or "–", "bold"))
            for head, content in zip(heads[1:], others, strict=False):
                if content.plain.strip():
                    yield Padding(Text.assemble((f"{head.plain}: ", "dim"), content), (0, 0, 0, _INDENT))
        yield Text()


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "list_item_open": _Item,
        "table_open": _Table,
    }


def rendered(text: str, command: Callable[[str], str]) -> Markdown:
    """Return a page to print.

    :param command: returns the command that prints the target of a link; empty: only the link's text counts
    """
    page = _Page(text, hyperlinks=False)
    for token in page.parsed:
        kept, target = [], ""
        for child in token.children or ():
            if child.type == "link_open":
                target = child.attrs["href"] = command(str(child.attrs["href"]))
            if target or child.type not in {"link_open", "link_close"}:
                kept.append(child)
            if child.type == "link_close":
                target = ""
        if token.children is not None:
            token.children = kept
    return page
