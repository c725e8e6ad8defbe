"""`kafka TOOL`: Apache Kafka's own tools, from the jars of the local broker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence

import click

from headwater.cli.app import with_settings
from headwater.cli.output import download_progress
from headwater.errors import InputError
from headwater.jvm.installed import find_java
from headwater.jvm.jars import ensure_jars, own_jar
from headwater.settings import Settings
from headwater.settings.kafka_security import java_properties

# The classes that Kafka's shell scripts start; the scripts are not in its jars.
TOOLS: Mapping[str, str] = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "org.apache.kafka.tools.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}
_WITHOUT_BROKER = {"dump-log", "producer-perf-test"}


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("tool", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@with_settings
def kafka(settings: Settings, tool: str | None, arguments: tuple[str, ...]) -> None:
    """Run one of Apache Kafka's own tools, such as `console-consumer` or `topics`.

    Takes the tool's own arguments. The default of --bootstrap-server is the brokers of the
    settings, and the tool logs in with their security.
    """
    if tool in (None, "--help", "-h"):
        click.echo("headwater kafka TOOL ARGUMENTS…\n\ntools: " + ", ".join(TOOLS))
        return
    name = tool.removeprefix("kafka-").removesuffix(".sh")
    if name not in TOOLS:
        raise InputError(f"unknown Kafka tool: {tool!r}", hint=f"known: {', '.join(TOOLS)}")
    java = find_java(settings)
    with download_progress() as progress:
        jars = ensure_jars(["broker"], settings, progress)
        if settings.kafka.token_provider is not None:
            jars.append(own_jar(settings, progress))
    class_path = ":".join(str(jar) for jar in jars)
    command = [str(java.binary), "-Xmx256m", "-Dlog4j2.level=ERROR", "-cp", class_path]
    # Replaces this process, so that the tool receives signals and standard input directly.
    os.execv(command[0], [*command, TOOLS[name], *_with_brokers(name, arguments, settings)])  # noqa: S606


def _security_file(settings: Settings) -> str | None:
    """A file with the properties of Java's clients that only this process and the tool can open."""
    properties = java_properties(settings.kafka, settings.spark.kafka_options)
    if not properties:
        return None
    # Not closed: the tool inherits it. It has no name, so that nothing is left.
    file = tempfile.TemporaryFile()
    file.write("".join(f"{k}={_escaped(v)}\n" for k, v in properties.items()).encode("ascii"))
    file.flush()
    inherited = os.dup(file.fileno())
    os.lseek(inherited, 0, os.SEEK_SET)
    os.set_inheritable(inherited, True)
    return f"/dev/fd/{inherited}"


def _escaped(value: str) -> str:
    """A value of a Java properties file."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = escaped.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    text = "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)
    return f"\\{text}" if text.startswith(" ") else text


def _with_brokers(tool: str, arguments: Sequence[str], settings: Settings) -> list[str]:
    # Kafka 4 has removed --broker-list, which older tutorials use.
    words = ["--bootstrap-server" if word == "--broker-list" else word for word in arguments]
    has_brokers = any(word.startswith(("--bootstrap-", "--command-config")) for word in words)
    if has_brokers or tool in _WITHOUT_BROKER or "--help" in words:
        return words
    # Last, because `cluster` expects its subcommand first.
    words = [*words, "--bootstrap-server", settings.bootstrap_servers]
    security = _security_file(settings)
    return words if security is None else [*words, "--command-config", security]
