"""The second updateBrokerConfig went to another file, and was acknowledged.

The first one wrote the path of the `-c` file into it, as it was typed: relative to a folder that
was another one at the next start.
"""

import pytest

from cometmq.protocol.java.values import parse_properties
from peers.configured import ConfiguredBroker, ConfiguredNamesrv, shown, update

KEYS = {ConfiguredBroker: "brokerConfigPath", ConfiguredNamesrv: "configStorePath"}
SETTINGS = {
    ConfiguredBroker: ("traceOn=false", "regionId=x"),
    ConfiguredNamesrv: ("orderMessageEnable=true", "productEnvName=x"),
}
kinds = pytest.mark.parametrize("kind", KEYS)


def files_under(folder):
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.suffix in (".conf", ".bak", ".properties")
    }


def values_of(*texts):
    return dict(text.split("=") for text in texts)


@kinds
def test_a_relative_path_means_one_file_for_good(tmp_path, monkeypatch, kind):
    first, second = SETTINGS[kind]
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "conf").mkdir(parents=True)
    elsewhere.mkdir()
    file = home / "conf" / "server.conf"
    file.write_text("serverSocketBacklog=100\n")
    monkeypatch.chdir(home)
    server = kind(tmp_path / "server", "-c", "conf/server.conf")
    with server:
        assert shown(server)[KEYS[kind]] == str(file)
        assert update(server, first).code == 0
    assert KEYS[kind] not in parse_properties(file.read_text())
    monkeypatch.chdir(elsewhere)
    server.words = ("-c", str(file))
    with server:
        assert update(server, second).code == 0
    assert parse_properties(file.read_text()) == {
        "serverSocketBacklog": "100", **values_of(first, second),
    }  # fmt: skip
    assert files_under(tmp_path) == {"home/conf/server.conf", "home/conf/server.conf.bak"}
    with server:
        assert shown(server).items() >= values_of(first, second).items()


@kinds
def test_a_path_in_the_file_is_ignored(tmp_path, monkeypatch, kind):
    """An earlier version wrote one."""
    first, _ = SETTINGS[kind]
    file = tmp_path / "server.conf"
    file.write_text(f"{KEYS[kind]}=conf/server.conf\n")
    monkeypatch.chdir(tmp_path)
    with kind(tmp_path / "server", "-c", "server.conf") as server:
        assert shown(server)[KEYS[kind]] == str(file)
        assert update(server, first).code == 0
    ignored = f"setting in the -c file ignored key={KEYS[kind]} changes_go_to={file}"
    assert ignored in server.log
    assert file.read_text() == f"{KEYS[kind]}=conf/server.conf\n{first}\n"
    assert files_under(tmp_path) == {"server.conf", "server.conf.bak"}


@kinds
def test_a_link_stays_and_its_target_changes(tmp_path, kind):
    first, _ = SETTINGS[kind]
    target, link = tmp_path / "repository" / "real.conf", tmp_path / "server.conf"
    target.parent.mkdir()
    target.write_text("# ours\n")
    link.symlink_to(target)
    with kind(tmp_path / "server", "-c", str(link)) as server:
        assert update(server, first).code == 0
    assert link.readlink() == target
    assert target.read_text() == f"# ours\n{first}\n"
    assert (tmp_path / "server.conf.bak").read_text() == "# ours\n"


@kinds
def test_a_file_that_is_gone_is_not_made_anew(tmp_path, kind):
    """A new file would have the change alone: the next start would use another store."""
    first, _ = SETTINGS[kind]
    file = tmp_path / "server.conf"
    file.write_text("# ours\n")
    with kind(tmp_path / "server", "-c", str(file)) as server:
        file.unlink()
        reply = update(server, first)
        assert reply.code == 1
        assert f"nothing was changed: the -c file {file} of this server was deleted" in reply.remark
        assert not shown(server).items() >= values_of(first).items()
    assert not file.exists()


@kinds
def test_a_setting_of_the_command_line_wins_and_the_log_says_so(tmp_path, kind):
    first, _ = SETTINGS[kind]
    key, _, value = first.partition("=")
    other = {"true": "false", "false": "true"}[value]
    file = tmp_path / "server.conf"
    file.write_text("")
    with kind(tmp_path / "server", "-c", str(file), f"{key}={other}") as server:
        assert update(server, first).code == 0
        assert shown(server)[key] == value
    wins = f"the command line overrides this setting at the next start key={key}"
    assert wins in server.log
    with server:
        assert shown(server)[key] == other
