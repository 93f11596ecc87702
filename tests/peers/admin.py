"""Apache's admin tool, many commands in one JVM."""

import re

from peers.driver import JavaProgram

# As Java prints what was thrown: the word alone may stand in a stack that was asked for.
_THROWN = re.compile(r"^(?:Caused by: )?[\w.$]+Exception(?::|$)", re.MULTILINE)


class AdminShell(JavaProgram):
    """Runs mqadmin commands against one name server: `run("topicList")` gives what it printed."""

    def __init__(self, namesrv: str) -> None:
        super().__init__("Admin", properties={"rocketmq.namesrv.addr": namesrv})
        self.namesrv = namesrv

    def run(self, *words: str, fails: bool = False, timeout: float = 150) -> str:
        """What the command printed; an AssertionError if it failed, or did not and should have."""
        printed = self.say(*words, "-n", self.namesrv, timeout=timeout)
        assert bool(_THROWN.search(printed)) == fails, printed
        return printed

    def say(self, *words: str, timeout: float = 150) -> str:
        """What these words alone made it print: `say("help", "topicList")`."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        printed: str = self.next(timeout)["printed"]
        return printed
