"""What clients of a release make of the leader epochs in answers to Metadata, consumers and producers alike.

Source: Kafka's ``Metadata`` at the tags named.
"""

from attrs import evolve, frozen


@frozen(kw_only=True)
class MetadataRules:
    """The decisions of one release's clients; the defaults are today's."""

    epochs_since: int = 9
    """The first version of Metadata whose leader epochs count: those of brokers before 2.4 may be of any age
    (``MetadataResponse.hasReliableLeaderEpochs``, KAFKA-9212, 2.4.0); 2.3 takes them from version 7 on."""
    new_topic_ids_reset_epochs: bool = True
    """A topic of another id begins anew: whatever epoch was last seen of its partitions, the answer's counts. Before
    2.8.2 and 3.0.0 ids are not looked at, so that a topic that was deleted and created again is passed over until its
    epochs are higher (``Metadata.updateLatestMetadata``, KAFKA-12257); 3.0.0 does only if it knew the former id."""


METADATA_2_8 = MetadataRules()
METADATA_2_4 = evolve(METADATA_2_8, new_topic_ids_reset_epochs=False)
METADATA_2_3 = evolve(METADATA_2_4, epochs_since=7)
