"""The group coordinator on a replicated ``__consumer_offsets``: its log is the broker's, not the disk.

The coordinator itself (``actors.coordinator.coordinator``) is the same. Here its appends become requests to the broker
of the same process, whose answers are its ``Appended``; and the broker's word on what it leads becomes ``LeadOffsets``
and ``ResignOffsets``. See ``actors.broker.group_log``.
"""

from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.machine import Appended, Event, LinkDown, Received, Record, Told
from kemu.protocol.commands import LeadOffsets, ResignOffsets
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.offsets_log import (
    AppendGroups,
    AppendGroupsReply,
    LeadGroups,
    LeadGroupsReply,
    ResignGroups,
    ResignGroupsReply,
)
from kemu.protocol.names import ActorName

_VERSION = 0


class ReplicatedCoordinator(Coordinator):
    """A coordinator whose partitions ``broker``, the other actor of its process, keeps."""

    def __init__(self, name: ActorName, node_id: int, config: BrokerConfig, broker: ActorName) -> None:
        super().__init__(name, node_id, config)
        self._broker = broker
        self._asked: dict[int, int] = {}
        """Request id of an append under way -> its token."""

    def append(self, log: str, records: tuple[Record, ...], token: int) -> None:
        """Ask the broker to append; its answer is told as ``Appended``."""
        number = int(log.rpartition("-")[2])
        request = AppendGroups(partition=number, leader_epoch=self.partitions[number].epoch, records=records)
        self._asked[self.request(self._broker, request, _VERSION)] = token

    def handle(self, event: Event) -> None:
        """What the broker says is translated; everything else is the coordinator's business."""
        match event:
            case Received(message=AppendGroupsReply(error=error, base_offset=base_offset)):
                super().handle(Appended(self._asked.pop(event.request_id), error, base_offset))
            case Received(message=LeadGroups() as message):
                self.reply(event, LeadGroupsReply())
                super().handle(Told(self._lead_command(message)))
            case Received(message=ResignGroups() as message):
                self.reply(event, ResignGroupsReply())
                # The coordinator believes only higher epochs: the one it leads under ends now.
                command = ResignOffsets(partition=message.partition, leader_epoch=message.leader_epoch + 1)
                super().handle(Told(command))
                self.partitions[message.partition].epoch = message.leader_epoch
            case LinkDown(peer=peer) if peer == self._broker:
                asked, self._asked = self._asked, {}
                for token in asked.values():
                    super().handle(Appended(token, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1))
            case _:
                super().handle(event)

    def _lead_command(self, message: LeadGroups) -> LeadOffsets:
        return LeadOffsets(
            partition=message.partition,
            leader_epoch=message.leader_epoch,
            records=message.records,
            load_us=self.config.emulated_load_us if message.records else 0,
        )
