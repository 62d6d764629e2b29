"""The console on a terminal: the state above, the story below, and a prompt with completion."""

import asyncio
import textwrap
from collections.abc import Callable, Iterable

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style

from kemu.tools.console.completion import completions
from kemu.tools.console.exchange import Address, Exchange
from kemu.tools.console.session import Session
from kemu.tools.console.words import WEAK, Line, plain_text, state_lines, title_line

EVERY_S = 0.5
"""Time between two looks at the state."""
SHARE = 10
"""A look at the state may take this share of the time; the run makes the state between its turns."""
MOST_LINES = 5_000
"""Largest number of lines of the story; the oldest are forgotten."""
KEYS = "Tab completes  Up/Down history  PgUp/PgDn story  F2/F3 state  help  Ctrl-D ends"
STYLE = Style.from_dict(
    {"title": "bold", "good": "ansigreen", "bad": "ansired bold", "weak": "ansibrightblack", "rule": "reverse"}
)


class _OrderCompleter(Completer):
    def __init__(self, screen: "Screen") -> None:
        self._screen = screen

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Complete the last word."""
        text = document.text_before_cursor
        last = text.rpartition(" ")[2]
        for word, shown in completions(text, self._screen.session.state):
            yield Completion(word, start_position=-len(last), display=shown)


class _Pane:
    """Lines of which a part is visible."""

    def __init__(self, follows: bool, height: Callable[[], Dimension]) -> None:
        self.lines: list[Line] = []
        self._follows = follows
        """Whether the last lines are visible, and not the first."""
        self.offset = 0
        """Number of lines between the visible part and the end that is visible without scrolling."""
        self.window = Window(FormattedTextControl(self._text), height=height)

    @property
    def _height(self) -> int:
        info = self.window.render_info
        return info.window_height if info is not None else 1

    def scroll(self, lines: int) -> None:
        """Scroll away from the visible end (a positive number), or back."""
        self.offset = max(0, min(self.offset + lines, len(self.lines) - self._height))

    def page(self) -> int:
        """The number of lines of a page."""
        return max(1, self._height - 1)

    def add(self, line: Line) -> None:
        """Append a line; the visible part stays where the user has scrolled to."""
        self.lines.append(line)
        self.offset += 1 if self.offset else 0
        if len(self.lines) > MOST_LINES:
            del self.lines[: MOST_LINES // 10]

    def _text(self) -> StyleAndTextTuples:
        height = self._height if self.window.render_info is not None else MOST_LINES
        if self._follows:
            end = len(self.lines) - self.offset
            shown = self.lines[max(0, end - height) : end]
        else:
            shown = self.lines[self.offset : self.offset + height]
        info = self.window.render_info
        rows = shown if info is None else [row for line in shown for row in _wrapped(line, info.window_width)]
        rows = rows[-height:] if self._follows else rows[:height]
        return [part for row in rows for part in (*_fragments(row), ("", "\n"))][:-1]


class _Readers:
    """The exchanges whose sockets the event loop reads."""

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen

    def append(self, exchange: Exchange) -> None:
        asyncio.get_running_loop().add_reader(exchange.fileno(), self._screen.take, exchange)

    def remove(self, exchange: Exchange) -> None:
        asyncio.get_running_loop().remove_reader(exchange.fileno())


class Screen:
    """The full screen. Create it inside of an event loop.

    Args:
        address: where the run takes orders.
        terminal, output: in place of the process's terminal.

    Raises:
        BadInput: nobody takes orders at the address.
    """

    def __init__(
        self,
        address: Address,
        *,
        terminal: Input | None = None,
        output: Output | None = None,
        colours: bool = True,
    ) -> None:
        self._state = _Pane(follows=False, height=self._state_height)
        self._story = _Pane(follows=True, height=lambda: Dimension(min=4, preferred=MOST_LINES, weight=2))
        self._title: Line = ((WEAK, f"waiting for {address}"),)
        self.session = Session(address, self.say, _Readers(self))
        self._buffer = Buffer(
            completer=_OrderCompleter(self),
            complete_while_typing=False,  # Tab is ignored while such a completion is under way
            history=InMemoryHistory(),
            multiline=False,
            accept_handler=self._entered,
        )
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            style=STYLE,
            full_screen=True,
            input=terminal,
            output=output,
            color_depth=None if colours else ColorDepth.DEPTH_1_BIT,
        )

    @property
    def state(self) -> list[str]:
        """The lines of the state."""
        return [plain_text(line) for line in self._state.lines]

    @property
    def story(self) -> list[str]:
        """The lines of the story, with orders and answers."""
        return [plain_text(line) for line in self._story.lines]

    @property
    def typed(self) -> str:
        """The line at the prompt."""
        return self._buffer.text

    # --- layout ------------------------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        prompt = Window(BufferControl(self._buffer, input_processors=[BeforeInput("kemu> ", "class:title")]), height=1)
        rows = HSplit(
            [
                Window(FormattedTextControl(lambda: _fragments(self._title)), height=1),
                self._state.window,
                Window(FormattedTextControl(lambda: [("class:rule", self._rule())]), height=1, style="class:rule"),
                self._story.window,
                prompt,
            ]
        )
        menu = Float(CompletionsMenu(max_height=8, scroll_offset=1), xcursor=True, ycursor=True)
        return Layout(FloatContainer(rows, [menu]), focused_element=prompt)

    def _state_height(self) -> Dimension:
        lines = max(1, len(self._state.lines))
        return Dimension(min=1, preferred=lines, max=lines, weight=3)

    def _rule(self) -> str:
        below = f"  {self._story.offset} lines below" if self._story.offset else ""
        pending = f"  {len(self.session.orders)} orders without an answer" if self.session.orders else ""
        return f" {KEYS}{below}{pending}"

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=KeyboardInterrupt())

        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            if not self._buffer.text:
                event.app.exit()

        @keys.add("c-l")
        def _(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

        for key, pane, sign in (
            ("pageup", self._story, 1),
            ("pagedown", self._story, -1),
            ("f2", self._state, -1),
            ("f3", self._state, 1),
        ):
            keys.add(key)(_scrolling(pane, sign))
        return keys

    # --- events ------------------------------------------------------------------------------------------------

    def say(self, line: Line) -> None:
        """Add a line to the story."""
        self._story.add(line)

    def _entered(self, buffer: Buffer) -> bool:
        text = buffer.text.strip()
        if text:
            self.say((("title", f"> {text}"),))
        self.session.order(text)
        self._look()
        return False

    def take(self, exchange: Exchange) -> None:
        """Take the lines of an exchange whose socket is readable."""
        try:
            self.session.take(exchange)
        except Exception as error:
            self._exit(error)
        self._look()

    def _look(self) -> None:
        """Show the present state; end if the session is over."""
        state = self.session.state
        if state:
            self._title, self._state.lines = title_line(state, str(self.session.address)), state_lines(state)
        if self.session.is_over:
            self._exit()
        self.app.invalidate()

    def _exit(self, error: Exception | None = None) -> None:
        if self.app.is_running and not (self.app.future is not None and self.app.future.done()):
            if error is not None:
                self.app.exit(exception=error)
            else:
                self.app.exit()

    async def run(self) -> None:
        """Run until the user or the run ends.

        Raises:
            KeyboardInterrupt: Ctrl-C, or a signal.
            BadInput: the other side does not speak kemu's control protocol.
        """

        async def poll() -> None:
            loop = asyncio.get_running_loop()
            while True:
                began_s = loop.time()
                self.session.poll()
                while self.session.is_polling:
                    await asyncio.sleep(0.02)
                await asyncio.sleep(max(EVERY_S, SHARE * (loop.time() - began_s)))

        polling = asyncio.ensure_future(poll())
        try:
            await self.app.run_async(handle_sigint=True)
        finally:
            polling.cancel()
            self.session.close()


def _scrolling(pane: _Pane, sign: int) -> Callable[[KeyPressEvent], None]:
    def scroll(event: KeyPressEvent) -> None:
        pane.scroll(sign * pane.page())

    return scroll


def _wrapped(line: Line, width: int) -> list[Line]:
    """A line as one or more lines that fit into the width."""
    text = plain_text(line)
    if len(text) <= width:
        return [line]
    style = line[-1][0]
    return [((style, part),) for part in textwrap.wrap(text, max(width, 20), subsequent_indent="    ")]


def _fragments(line: Line) -> StyleAndTextTuples:
    return [(f"class:{style}" if style else "", text) for style, text in line]


def run_screen(address: Address, colours: bool) -> Session:
    """Run the full screen; return the session.

    Raises:
        KeyboardInterrupt: Ctrl-C, or a signal.
        BadInput: nobody takes orders at the address.
    """

    async def run() -> Session:
        screen = Screen(address, colours=colours)
        await screen.run()
        return screen.session

    return asyncio.run(run())
