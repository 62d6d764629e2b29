"""A coordinator's log on a replicated ``__consumer_offsets``: kept by the broker, not by this actor (a ``GroupLog``).

Appends are requests to the broker of the same process. The broker's notices of leadership make the coordinator load and
unload groups. See ``actors.broker.group_log``.
"""

from kemu.actors.coordinator.log import ALL_IN_SYNC, LogListener, OffsetsPartition
from kemu.actors.machine import Draws, Machine, Received, Record
from kemu.protocol.commands import LeadOffsets
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.local import GroupConfigs, GroupConfigsReply
from kemu.protocol.messages.offsets_log import (
    AppendGroups,
    AppendGroupsReply,
    GroupTopics,
    GroupTopicsReply,
    LeadGroups,
    LeadGroupsReply,
    ResignGroups,
    ResignGroupsReply,
)
from kemu.protocol.names import ActorName

_WITH_ACKS_ALL, _WITH_ANY_ACKS = 0, 1
"""Versions of AppendGroups."""


class BrokerLog:
    """Logs of partitions that ``broker`` keeps, the other actor of the coordinator's process.

    Args:
        load_us: the time to read a log that is not empty, unless the time is drawn.
        commit_timeout_us: ``offsets.commit.timeout.ms``.
    """

    def __init__(
        self,
        machine: Machine,
        broker: ActorName,
        load_us: int,
        draws: Draws = CALM,
        *,
        commit_timeout_us: int,
    ) -> None:
        self.commit_timeout_us: int | None = commit_timeout_us
        self._machine = machine
        self._broker = broker
        self._load_us = load_us
        self._draws = draws
        self._asked: dict[int, int] = {}
        """Request id of an append in progress -> its token."""

    def append(self, partition: OffsetsPartition, records: tuple[Record, ...], token: int, required_acks: int) -> None:
        """Send the append to the broker of the same process."""
        request = AppendGroups(
            partition=partition.number, leader_epoch=partition.epoch, records=records, required_acks=required_acks
        )
        version = _WITH_ACKS_ALL if required_acks == ALL_IN_SYNC else _WITH_ANY_ACKS
        self._asked[self._machine.request(self._broker, request, version)] = token

    def receive(self, event: Received, listener: LogListener) -> None:
        """React to the outcome of an append, or to a change of leadership."""
        match event.message:
            case AppendGroupsReply(error=error, base_offset=base_offset):
                listener.written(self._asked.pop(event.request_id), error, base_offset)
            case LeadGroups(partition=number, leader_epoch=leader_epoch, records=records):
                self._machine.reply(event, LeadGroupsReply())
                load_us = self._draws.us(DrawName.OFFSETS_LOAD, self._load_us) if records else 0
                wait_us = self._draws.us(DrawName.OFFSETS_WAIT, 0) if records else 0
                listener.lead(
                    LeadOffsets(
                        partition=number, leader_epoch=leader_epoch, records=records, load_us=load_us, wait_us=wait_us
                    )
                )
            case ResignGroups(partition=number, leader_epoch=leader_epoch):
                self._machine.reply(event, ResignGroupsReply())
                listener.leadership_ended(number, leader_epoch)
            case GroupTopics(topics=topics):
                self._machine.reply(event, GroupTopicsReply())
                listener.know_topics(topics)
            case GroupConfigs(group=group, settings=settings):
                self._machine.reply(event, GroupConfigsReply())
                listener.know_group_settings(group, dict(settings))
            case _:
                raise AssertionError(f"{self._machine.name}: not a request of a coordinator: {event.message!r}")

    def link_down(self, peer: ActorName, listener: LogListener) -> None:
        """Fail the appends in progress, as their answers are lost."""
        if peer == self._broker:
            asked, self._asked = self._asked, {}
            for token in asked.values():
                listener.written(token, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
