"""`cometmq` and `python -m cometmq`: the admin tool, or any other command.

The admin tool is quick because it does without what the other commands are made with.
"""

import sys

from cometmq import collector


def main() -> None:
    """By the first word."""
    if sys.argv[1:2] == ["admin"]:
        collector.rest()
        from cometmq.admin.command_line.main import main as admin

        sys.exit(admin(sys.argv[2:], "cometmq admin"))
    from cometmq.cli import main as others

    others()


if __name__ == "__main__":
    main()
