"""Apache's admin tool, many commands in one JVM."""

from peers.driver import JavaProgram


class AdminShell(JavaProgram):
    """Runs mqadmin commands against one name server: `run("topicList")` gives what it printed."""

    def __init__(self, namesrv: str) -> None:
        super().__init__("Admin", properties={"rocketmq.namesrv.addr": namesrv})
        self._namesrv = namesrv

    def run(self, *words: str, fails: bool = False, timeout: float = 60) -> str:
        """What the command printed; an AssertionError if it failed, or did not and should have."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join((*words, "-n", self._namesrv)) + "\n")
        self._process.stdin.flush()
        printed: str = self.next(timeout)["printed"]
        assert ("Exception" in printed) == fails, printed
        return printed
