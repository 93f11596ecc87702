"""The command line of the admin tool: `cometmq admin` and `mqadmin`.

Modules are imported when they are needed, so that one command takes less than 0.2 s. Exit codes:
0 done, 1 refused or failed, 2 wrong usage.
"""

import os
import sys
from collections.abc import Sequence

from cometmq import collector
from cometmq.admin.command_line import usage
from cometmq.errors import BadName, PeerError, UserError, WorldError
from cometmq.printable import one_line

DONE, FAILED, WRONG_USAGE = 0, 1, 2
_INTERRUPTED = 130


def mqadmin() -> None:
    """Run the admin tool under the name of Apache's script."""
    collector.pause()
    sys.exit(main(sys.argv[1:], "mqadmin"))


def main(words: Sequence[str], program: str) -> int:
    """Run one command; returns the exit code."""
    try:
        return _run(words, program)
    except (UserError, BadName) as error:
        return _complain(program, error, WRONG_USAGE)
    except (PeerError, WorldError) as error:
        return _complain(program, error, FAILED)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader closed the pipe: discard the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _run(words: Sequence[str], program: str) -> int:
    asked = usage.parse(words, program)
    if isinstance(asked, str):
        print(asked, flush=True)
        return DONE

    from cometmq.admin.command_line.running import run

    collector.resume()
    has_failed = run(asked, sys.stdout)
    sys.stdout.flush()
    return FAILED if has_failed else DONE


def _complain(program: str, error: Exception, code: int) -> int:
    print(f"{program}: {one_line(' '.join(str(error).split()))}", file=sys.stderr)
    return code
