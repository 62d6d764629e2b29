"""``kemu help`` prints the definition of a word, or the help of a command."""

import click


@click.command("help")
@click.argument("words", metavar="[WORD]", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Define WORD: a figure, a verdict, a term of Kafka or of kemu, a command, or a KEY of "kemu describe".

    Without WORD, print the help of kemu.
    """
    root = ctx.find_root()
    if not words:
        click.echo(root.get_help())
        return
    from kemu.tools.words import known, look_up

    asked = " ".join(words)
    found = look_up(asked)
    for word in found:
        click.echo(f"{click.style(word.term, bold=True)}: {word.line}")
    assert isinstance(root.command, click.Group), "the root is the command kemu"
    command = root.command.get_command(root, asked)
    if found and command is not None:
        click.echo(f'"kemu {asked} --help" shows the help of the command.')
    elif command is not None:
        click.echo(command.get_help(click.Context(command, info_name=asked, parent=root)))
    elif not found:
        from kemu.emulator.text.tables import nearest
        from kemu.tools.commands.describe import EXPLAINED

        described = [line for lines in EXPLAINED for line in lines(asked)]
        if described:
            click.echo("\n".join(described))
            return
        names = [*known(), *root.command.list_commands(root)]
        raise click.UsageError(f'no definition of "{asked}"{nearest(asked, names)}')
