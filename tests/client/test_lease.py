"""Whose session it is."""

import asyncio

import pytest

from cometmq.client.config import ClientConfig
from cometmq.client.session.session import Session
from cometmq.client.session.session_handle import lease
from cometmq.errors import BadSetting, Closed

ADDRESS = "127.0.0.1:9876"


def test_a_session_that_was_made_for_a_client_ends_with_it():
    async def main():
        for own in (
            lease(ADDRESS, None, None),
            lease(None, ClientConfig(name_servers=ADDRESS), None),
        ):
            await own.end()
            with pytest.raises(Closed):
                own.session.check_open()

    asyncio.run(main())


def test_one_that_was_given_stays():
    async def main():
        async with Session(ClientConfig(name_servers=ADDRESS)) as shared:
            borrowed = lease(None, None, shared)
            assert borrowed.session is shared
            await borrowed.end()
            shared.check_open()
        with pytest.raises(Closed):
            lease(None, None, shared)

    asyncio.run(main())


def test_own_sessions_have_names_of_their_own_unless_they_keep_theirs():
    async def main():
        one, other = lease(ADDRESS, None, None), lease(ADDRESS, None, None)
        kept = lease(ADDRESS, None, None, keep_name=True)
        assert one.session.client_id != other.session.client_id
        assert kept.session.config.instance_name == "DEFAULT"
        for each in (one, other, kept):
            await each.end()

    asyncio.run(main())


def test_there_is_one_way_to_say_it():
    with pytest.raises(BadSetting, match="mutually exclusive"):
        lease(ADDRESS, ClientConfig(name_servers=ADDRESS), None)
