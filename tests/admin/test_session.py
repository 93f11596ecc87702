"""How the tool talks: to the first name server that answers, in the language it is told to."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from cometmq.admin.session import AdminConfig, AdminSession
from cometmq.errors import BadSetting, Refused, Unreachable
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command, response_to
from cometmq.protocol.frame import FrameDecoder, encode_frame
from peers import ports


@asynccontextmanager
async def server(code=ResponseCode.SUCCESS, remark=None):
    """Answers everything with one code: its address, and what it was asked."""
    asked: list[Command] = []

    async def serve(reader, writer):
        decoder = FrameDecoder()
        while data := await reader.read(65536):
            for command in decoder.feed(data):
                asked.append(command)
                answer = response_to(command, code, remark=remark)
                writer.write(encode_frame(answer))
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield f"127.0.0.1:{port}", asked


def nobody():
    return f"127.0.0.1:{ports.free_port()}"


def ask(code=RequestCode.GET_NAMESRV_CONFIG, **config):
    async def story():
        async with server() as (address, asked):
            names = (*config.pop("before", ()), address)
            async with AdminSession(AdminConfig(name_servers=names, **config)) as admin:
                await admin.ask_any_server(code)
            return asked

    return asyncio.run(story())


def test_the_first_name_server_that_answers():
    assert [command.code for command in ask(before=(nobody(),))] == [RequestCode.GET_NAMESRV_CONFIG]


def test_no_name_server_answers():
    async def story():
        async with AdminSession(AdminConfig(name_servers=(nobody(), nobody()))) as admin:
            await admin.ask_any_server(RequestCode.GET_NAMESRV_CONFIG)

    with pytest.raises(Unreachable, match=r"no name server answers .*; .*check the address"):
        asyncio.run(story())


def test_no_name_server_is_given():
    async def story():
        async with AdminSession(AdminConfig()) as admin:
            await admin.ask_any_server(RequestCode.GET_NAMESRV_CONFIG)

    with pytest.raises(BadSetting, match="NAMESRV_ADDR"):
        asyncio.run(story())


def test_languages():
    assert [command.language for command in ask()] == ["PYTHON"]
    assert [command.language for command in ask(language="CPP")] == ["CPP"]


def test_accounts():
    (plain,) = ask()
    assert "AccessKey" not in plain.ext_fields
    (signed,) = ask(access_key="me", secret_key="mine")
    assert signed.ext_fields["AccessKey"] == "me" and signed.ext_fields["Signature"]


def test_a_refusal_is_one_line_with_its_reason():
    async def story():
        async with (
            server(ResponseCode.NO_PERMISSION, "not you\n  ever") as (address, _),
            AdminSession(AdminConfig()) as admin,
        ):
            change = await admin.change("try", address, RequestCode.CLEAN_UNUSED_TOPIC)
            assert change.is_failure
            await admin.ask(address, RequestCode.CLEAN_UNUSED_TOPIC)

    with pytest.raises(Refused, match=r"answered NO_PERMISSION: not you ever$"):
        asyncio.run(story())


def test_mapped_addresses():
    async def story():
        async with server() as (address, asked):
            config = AdminConfig(address_map={"10.0.0.1:10911": address})
            async with AdminSession(config) as admin:
                await admin.ask("10.0.0.1:10911", RequestCode.GET_BROKER_CONFIG)
            return asked

    assert len(asyncio.run(story())) == 1


def test_dry_changes_are_not_sent():
    async def story():
        async with server() as (address, asked), AdminSession(AdminConfig(dry_run=True)) as admin:
            change = await admin.change("try", address, RequestCode.CLEAN_UNUSED_TOPIC)
            return change, asked

    change, asked = asyncio.run(story())
    assert (change.outcome, asked) == ("not done: dry run", [])
    assert not change.is_failure


def test_questions_under_way_are_bounded():
    """Hundreds may be asked for at once, each of which may ask more."""

    async def story():
        async with server() as (address, asked), AdminSession(AdminConfig()) as admin:

            async def one():
                await admin.all(admin.ask(address, RequestCode.GET_BROKER_CONFIG) for _ in range(3))

            await admin.all(one() for _ in range(200))
            return len(asked)

    assert asyncio.run(story()) == 600
