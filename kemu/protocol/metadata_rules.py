"""The use of leader epochs in metadata by a release's clients: consumers, producers and admin clients.

Source: Kafka's ``Metadata`` at the tags named.
"""

from kemu.protocol.frozen import evolve, frozen


@frozen(kw_only=True)
class MetadataRules:
    """The rules of one release's clients; the defaults are the rules of the newest release."""

    epochs_since: int = 9
    """The first version of Metadata with reliable leader epochs: epochs from brokers before 2.4 may be stale
    (``MetadataResponse.hasReliableLeaderEpochs``, KAFKA-9212, 2.4.0). Clients of 2.3 use the epochs from version 7 on.
    """
    new_topic_ids_reset_epochs: bool = True
    """Whether a new topic id resets the last seen epochs, so that the response's epochs are valid.

    Before 2.8.2 and 3.0.0, clients ignore ids: they skip a topic that was deleted and recreated until its epochs are
    higher (``Metadata.updateLatestMetadata``, KAFKA-12257). Clients of 3.0.0 reset only if they knew the former id.
    """
    retries_at_new_leader: bool = True
    """Whether a producer sends a batch to a newer leader without waiting for the batch's backoff: since 3.7
    (``RecordAccumulator.shouldBackoff``, KAFKA-15415).
    """


METADATA_3_7 = MetadataRules()
METADATA_2_8 = evolve(METADATA_3_7, retries_at_new_leader=False)
METADATA_2_4 = evolve(METADATA_2_8, new_topic_ids_reset_epochs=False)
METADATA_2_3 = evolve(METADATA_2_4, epochs_since=7)
