"""What our commands share: every option of the config as a flag."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from asap_project.config import Loaded
from asap_project.config.layers import normal_flag
from asap_project.config.options import nearest, options


class ConfigCommand(BaseCommand):
    """A command that runs under the config. The values were read with the settings; flags are declared for --help."""

    requires_system_checks: tuple[str, ...] = ()

    @property
    def loaded(self) -> Loaded:
        """The process's config."""
        loaded: Loaded = settings.ASAP
        return loaded

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, allow_abbrev=False, **kwargs)
        group = parser.add_argument_group("config", "each may also be set in the file and in the environment")
        group.add_argument("--config", metavar="FILE", dest="_config", help="YAML file; default ./config.yaml if there")
        for option in options().values():
            group.add_argument(
                option.flag,
                metavar="VALUE",
                nargs="?" if option.is_switch else None,
                dest=option.key,
                help=f"{option.help} ({option.env})".replace("%", "%%"),
            )
        return parser

    def run_from_argv(self, argv: list[str]) -> None:
        """As Django does, but an unknown flag is answered with the nearest known one."""
        self._called_from_command_line = True  # Django's own mark: what is wrong with a flag is a line, not a traceback
        words = [*argv[:2], *(_normal(word) for word in argv[2:])]
        parser = self.create_parser(words[0], words[1])
        _, unknown = parser.parse_known_args(words[2:])
        for word in unknown:
            if word.startswith("--"):
                flag = word.partition("=")[0]
                known = [name for action in parser._actions for name in action.option_strings]
                raise SystemExit(_complain(self, f"{flag}: is no option{nearest(flag, known)}"))
        super().run_from_argv(words)


def _normal(word: str) -> str:
    flag, joined, value = word.partition("=")
    return normal_flag(flag) + joined + value if flag.startswith("--") else word


def _complain(command: BaseCommand, line: str) -> int:
    command.stderr.write(f"asap: {line}")
    return 2
