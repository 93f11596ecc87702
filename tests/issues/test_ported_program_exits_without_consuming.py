"""The program that docs/porting.md ports line by line printed SEND_OK and ended before it consumed.

In Java a started client keeps the process alive until its shutdown. Checked with Apache's client
4.9.7: each of these five classes does.
"""

import re
import signal
import subprocess
import sys
import textwrap

import pytest

from cometmq import Message
from cometmq.blocking import Producer
from cometmq.testing.blocking import EmbeddedCluster

WAIT_S_MAX = 60
CONSUMER = """
from cometmq.compat import *

def take(messages, context):
    for message in messages:
        print("consumed", message.getBody().decode(), flush=True)
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

client = DefaultMQPushConsumer({topic!r})
client.setNamesrvAddr({address!r})
client.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
client.subscribe({topic!r}, "*")
client.registerMessageListener(MessageListenerConcurrently(take))
"""
CLIENTS = {
    "DefaultMQProducer": "client = DefaultMQProducer('g')",
    "TransactionMQProducer": """
        class Listener(TransactionListener):
            def executeLocalTransaction(self, message, arg):
                return LocalTransactionState.COMMIT_MESSAGE
            def checkLocalTransaction(self, message):
                return LocalTransactionState.COMMIT_MESSAGE
        client = TransactionMQProducer('g')
        client.setTransactionListener(Listener())
    """,
    "DefaultMQPushConsumer": """
        client = DefaultMQPushConsumer('g')
        client.subscribe({topic!r}, '*')
        client.registerMessageListener(lambda messages, context: None)
    """,
    "DefaultLitePullConsumer": """
        client = DefaultLitePullConsumer('g')
        client.subscribe({topic!r}, '*')
    """,
    "DefaultMQPullConsumer": "client = DefaultMQPullConsumer('g')",
}


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def place(cluster, request):
    """An address, and a topic of the test's own."""
    topic = re.sub(r"\W", "-", request.node.name)
    cluster.create_topic(topic)
    return {"address": cluster.name_server, "topic": topic}


class Program:
    """A process whose lines are read one by one."""

    def __init__(self, text, folder):
        file = folder / "program.py"
        file.write_text(text)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-u", file],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()

    def say(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def heard(self, wanted):
        line = self.process.stdout.readline()
        assert wanted in line, f"{line!r} {self.process.stderr.read() if not line else ''}"

    def ended(self):
        """Exit code and errors."""
        _, errors = self.process.communicate(timeout=WAIT_S_MAX)
        return self.process.returncode, errors


def send(place, body):
    with Producer("makers", place["address"]) as producer:
        producer.send(Message(place["topic"], body))


def test_a_consumer_goes_on_after_the_last_line(place, tmp_path):
    text = CONSUMER.format(**place) + "client.start()\nprint('main ended')\n"
    with Program(text, tmp_path) as program:
        program.heard("main ended")
        send(place, "apples")
        program.heard("consumed apples")
        send(place, "pears")
        program.heard("consumed pears")
        program.process.send_signal(signal.SIGINT)
        assert program.ended() == (0, ""), "Ctrl-C ends it"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -15), (signal.SIGINT, 0)])
def test_signals_end_it(place, tmp_path, number, code):
    text = CONSUMER.format(**place) + (
        "import atexit\n"
        "atexit.register(lambda: (client.shutdown(), print('hook')))\n"
        "client.start()\nprint('main ended')\n"
    )
    with Program(text, tmp_path) as program:
        program.heard("main ended")
        send(place, "plums")  # by then the main thread has ended
        program.heard("consumed")
        program.process.send_signal(number)
        if number is signal.SIGINT:
            program.heard("hook")
        assert program.ended() == (code, "")


def test_ctrl_c_in_the_main_thread_ends_it(place, tmp_path):
    text = CONSUMER.format(**place) + (
        "client.start()\nimport threading\nprint('waiting')\nthreading.Event().wait()\n"
    )
    with Program(text, tmp_path) as program:
        program.heard("waiting")
        program.process.send_signal(signal.SIGINT)
        code, errors = program.ended()
        assert code == -signal.SIGINT
        assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_handler_that_shuts_down_ends_it(place, tmp_path):
    text = CONSUMER.format(**place) + (
        "import signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: client.shutdown())\n"
        "client.start()\nprint('main ended')\n"
    )
    with Program(text, tmp_path) as program:
        program.heard("main ended")
        program.process.send_signal(signal.SIGTERM)
        assert program.ended() == (0, "")


@pytest.mark.parametrize("kind", CLIENTS)
def test_each_client_keeps_the_process_until_its_shutdown(place, tmp_path, kind):
    text = "from cometmq.compat import *\nimport sys, threading\n"
    text += textwrap.dedent(CLIENTS[kind]).format(**place) + textwrap.dedent(
        f"""
        client.setNamesrvAddr({place["address"]!r})
        def end_when_told():
            sys.stdin.readline()
            print("still here")
            client.shutdown()
        threading.Thread(target=end_when_told, daemon=True).start()
        client.start()
        print("main ended")
        """
    )
    with Program(text, tmp_path) as program:
        program.heard("main ended")
        program.say("end")
        program.heard("still here")
        assert program.ended() == (0, "")


def test_executors_work_after_the_last_line(place, tmp_path):
    """Python shuts its executors down before it waits for threads that are not daemons."""
    text = CONSUMER.format(**place) + textwrap.dedent(
        """
        import sys, threading
        from concurrent.futures import ThreadPoolExecutor
        executor = ThreadPoolExecutor(1)
        def end_when_told():
            sys.stdin.readline()
            print(executor.submit(lambda: "executed").result())
            client.shutdown()
        threading.Thread(target=end_when_told, daemon=True).start()
        client.start()
        print("main ended")
        """
    )
    with Program(text, tmp_path) as program:
        program.heard("main ended")
        program.say("end")
        program.heard("executed")
        assert program.ended() == (0, "")


def test_a_program_that_shuts_down_or_fails_to_start_ends(place, tmp_path):
    text = f"""
from cometmq.compat import *
for name in ("one", "two"):
    producer = DefaultMQProducer(name)
    producer.setNamesrvAddr({place["address"]!r})
    producer.start()
    producer.shutdown()
    producer.shutdown()
try:
    DefaultMQPushConsumer("takers").start()
except Exception as error:
    print(error)
"""
    with Program(text, tmp_path) as program:
        program.heard("registerMessageListener")
        assert program.ended() == (0, "")


def test_a_forked_child_does_not_wait_for_its_parents_clients(place, tmp_path):
    text = CONSUMER.format(**place) + (
        "client.start()\n"
        "import multiprocessing, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "child = multiprocessing.get_context('fork').Process(target=print, args=('child',))\n"
        "child.start()\nchild.join()\nprint('joined')\nclient.shutdown()\n"
    )
    with Program(text, tmp_path) as program:
        program.heard("child")
        program.heard("joined")
        assert program.ended() == (0, "")
