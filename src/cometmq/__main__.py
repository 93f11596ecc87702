"""`cometmq` and `python -m cometmq`.

`cometmq admin` starts fast because it does not import the modules of the other commands.
"""

import sys

from cometmq import collector


def main() -> None:
    """Run the admin tool if the first argument is `admin`; otherwise any other command."""
    if sys.argv[1:2] == ["admin"]:
        collector.pause()
        from cometmq.admin.command_line.main import main as admin

        sys.exit(admin(sys.argv[2:], "cometmq admin"))
    from cometmq.cli import main as others

    others()


if __name__ == "__main__":
    main()
