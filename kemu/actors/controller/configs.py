"""Dynamic settings: a broker writes them into the store on request, and every broker applies them when notified.

Any broker accepts an admin's request. The broker writes the settings into the store, without a fence, and then a
notification. Each broker's controller part watches the notifications, reads the named settings, and sends the settings
to its broker part. A starting broker reads all settings.

Source: Kafka 2.8 ``ZkAdminManager.incrementalAlterConfigs``, ``AdminZkClient.changeEntityConfig``,
``DynamicConfigManager``, ``TopicConfigHandler``, ``DynamicLogConfig``. Kafka removes notifications after 15 minutes;
here notifications remain, and each is read once. Invalid values are refused with INVALID_CONFIG, as since Kafka 3.4.
The only changeable settings of a single broker are the throttled rates of replication.

Settings of groups (Kafka 4.0) take the same way, in kemu also those of Kafka's metadata log.
"""

from collections.abc import Iterable

from kemu.actors.controller.dispatch import Dispatch, Job, Moment
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.transactions import Work, ask, ask_one, children, create, exists, expect, get, set_data
from kemu.protocol.dynamic_configs import ALL_BROKERS, UNCLEAN_ELECTION_ENABLE, ConfigResource, bad_setting
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    ConfigChange,
    ConfigOutcome,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
)
from kemu.protocol.messages.local import BrokerConfigs, GroupConfigs, OwnConfigs
from kemu.protocol.messages.store import CreateMode, StoreCode, WatchEventKind
from kemu.protocol.nodes import (
    BROKER_DEFAULTS,
    CONFIG_CHANGE_PREFIX,
    CONFIG_CHANGES,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    broker_config_path,
    config_change_data,
    config_data,
    group_config_path,
    read_config,
    read_config_change,
    topic_config_path,
    topic_path,
)

Refusal = tuple[ErrorCode, str]
_FINE: Refusal = (ErrorCode.NONE, "")


class DynamicConfigs:
    """The part for dynamic settings, in the controller part of every broker, active or not."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine
        self.of_brokers: dict[str, str] = {}
        """Settings of all brokers in the store, by Kafka's keys."""
        self._seen: dict[str, None] = {}
        """Notifications that this broker has read."""

    def subscribe(self, to: Dispatch) -> None:
        """Subscribe to notifications, and to requests of admins."""
        to.on_watch(CONFIG_CHANGES, Job("configs", self._changed, True), WatchEventKind.NODE_CHILDREN_CHANGED)
        to.on_request(IncrementalAlterConfigs, Job("admin", self.alter, True))

    @property
    def allows_unclean(self) -> bool:
        """Whether topics without their own setting may elect leaders outside the ISR."""
        default = self._machine.config.unclean_leader_election_enable
        value = self.of_brokers.get(UNCLEAN_ELECTION_ENABLE)
        return default if value is None else value == "true"

    # --- settings in the store -----------------------------------------------------------------------------------

    def start(self) -> Work[None]:
        """Read all settings, and set the watch on the notifications."""
        listed = yield from ask_one(children(CONFIG_CHANGES, watch=True))
        self._seen = dict.fromkeys(listed.children)
        topics = yield from ask_one(children(TOPIC_CONFIGS))
        # A single broker's settings are written with a notification: without notifications there are no settings to
        # read.
        own = [broker_config_path(self._machine.broker_id)] if listed.children else []
        if listed.children and self._machine.bad_group_settings is not None:
            groups = yield from ask_one(children(GROUP_CONFIGS))
            own += [group_config_path(group) for group in groups.children]
        yield from self._take([BROKER_DEFAULTS, *own, *(topic_config_path(topic) for topic in topics.children)], ())

    def _changed(self) -> Work[None]:
        listed = yield from ask_one(children(CONFIG_CHANGES, watch=True))
        new = sorted(name for name in listed.children if name not in self._seen)
        self._seen.update(dict.fromkeys(new))
        notes = yield from ask([get(f"{CONFIG_CHANGES}/{name}") for name in new])
        paths = [read_config_change(expect(note).data) for note in notes]
        yield from self._take(dict.fromkeys(paths), paths)

    def _take(self, paths: Iterable[str], changed: Iterable[str]) -> Work[None]:
        """Apply the settings at these paths; the active controller also reacts to the paths in ``changed``."""
        machine, names = self._machine, list(paths)
        found = yield from ask([get(path) for path in names])
        for path, result in zip(names, found, strict=True):
            is_topic_s = path.startswith(f"{TOPIC_CONFIGS}/")
            if path == broker_config_path(machine.broker_id):
                expect(result, StoreCode.NO_NODE)
                own = read_config(result.data) if result.code is StoreCode.OK else {}
                machine.request(machine.broker, OwnConfigs(settings=tuple(own.items())), 0)
                continue
            if path.startswith(f"{GROUP_CONFIGS}/"):
                expect(result)
                group = path.removeprefix(f"{GROUP_CONFIGS}/")
                settings = read_config(result.data)
                machine.request(machine.broker, GroupConfigs(group=group, settings=tuple(settings.items())), 0)
                continue
            if not is_topic_s and path != BROKER_DEFAULTS:
                continue  # another broker's settings, written by a tool
            expect(result, StoreCode.NO_NODE)
            settings = read_config(result.data) if result.code is StoreCode.OK else {}
            if not is_topic_s and settings == self.of_brokers:
                continue
            topic = path.rpartition("/")[2] if is_topic_s else ALL_BROKERS
            allowed = self.allows_unclean
            if not is_topic_s:
                self.of_brokers = settings
            machine.request(machine.broker, BrokerConfigs(topic=topic, settings=tuple(settings.items())), 0)
            if path not in changed or not machine.is_active:
                continue
            if is_topic_s and settings.get(UNCLEAN_ELECTION_ENABLE) == "true":
                yield from machine.partitions.trigger_online((topic,))
            elif not is_topic_s and self.allows_unclean and not allowed:
                yield from machine.partitions.trigger_online()
            if not is_topic_s:
                yield from machine.dispatch.reach(Moment.BROKER_CONFIGS_CHANGED)

    # --- admins ------------------------------------------------------------------------------------------------

    def alter(self, request: IncrementalAlterConfigs) -> Work[IncrementalAlterConfigsReply]:
        """Write the settings of each resource whose changes are all valid; other resources remain unchanged."""
        by_resource: dict[tuple[int, str], list[ConfigChange]] = {}
        for change in request.changes:
            by_resource.setdefault((change.resource_type, change.resource_name), []).append(change)
        outcomes = []
        for (kind, name), changes in by_resource.items():
            error, why = yield from self._alter(kind, name, changes)
            outcomes.append(
                ConfigOutcome(resource_type=kind, resource_name=name, error_code=error, error_message=why or None)
            )
        return IncrementalAlterConfigsReply(responses=tuple(outcomes))

    def _alter(self, kind: int, name: str, changes: list[ConfigChange]) -> Work[Refusal]:
        keys = [change.name for change in changes]
        if len(dict.fromkeys(keys)) < len(keys):
            return ErrorCode.INVALID_REQUEST, "a key is named more than once"
        one = False
        if kind == ConfigResource.TOPIC:
            there = yield from ask_one(exists(topic_path(name)))
            if there.code is not StoreCode.OK:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {name}"
            path = topic_config_path(name)
        elif kind == ConfigResource.BROKER and name == ALL_BROKERS:
            path = BROKER_DEFAULTS
        elif kind == ConfigResource.BROKER and name.isdecimal():
            path, one = broker_config_path(int(name)), True
        elif kind == ConfigResource.GROUP and name and self._machine.bad_group_settings is not None:
            path = group_config_path(name)
        else:
            text = f"settings of topics, of brokers, and (since 4.0) of groups can be changed, not of {name!r}"
            return ErrorCode.INVALID_REQUEST, text
        bad = [bad_setting(ConfigResource(kind), change.name, change.value, one=one) for change in changes]
        if any(bad):
            return ErrorCode.INVALID_CONFIG, "; ".join(filter(None, bad))
        found = yield from ask_one(get(path))
        expect(found, StoreCode.NO_NODE)
        settings = read_config(found.data) if found.code is StoreCode.OK else {}
        for change in changes:
            settings.pop(change.name, None)
            if change.value is not None:
                settings[change.name] = change.value
        if kind == ConfigResource.GROUP and self._machine.bad_group_settings is not None:
            why = self._machine.bad_group_settings(settings)
            if why:
                return ErrorCode.INVALID_CONFIG, why
            if found.code is StoreCode.NO_NODE:
                expect((yield from ask_one(create(GROUP_CONFIGS, b""))), StoreCode.NODE_EXISTS)
        yield from self.write(path, settings)
        return _FINE

    def write(self, path: str, settings: dict[str, str]) -> Work[None]:
        """Write these settings, and notify all brokers.

        Kafka sends no notification for a new topic: the new logs read the settings.
        """
        data = config_data(settings.items())
        written = yield from ask_one(set_data(path, data))
        if written.code is StoreCode.NO_NODE:
            written = yield from ask_one(create(path, data))
        expect(written)
        note = create(CONFIG_CHANGE_PREFIX, config_change_data(path), CreateMode.PERSISTENT_SEQUENTIAL)
        expect((yield from ask_one(note)))
