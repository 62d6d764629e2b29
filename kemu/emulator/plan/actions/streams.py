"""Operations of a Kafka Streams application: the scaling tool of KIP-429's page."""

# mypy: no-implicit-reexport

from attrs import field

from kemu.emulator.plan.action import NEVER, GroupName, MemberHost, action
from kemu.emulator.plan.known import Known, role_of
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.tables import Table
from kemu.emulator.text.units import percentage


@action("scale-down", "Streams instances transfer their tasks and close", drawn=NEVER, workload=True)
class ScaleDown:
    """Ask instances to leave. A leaving instance closes after other instances have learned its tasks (KIP-429, page
    version 99).

    Set either ``hosts``, or ``to``: the percentage of the running instances that stay, rounded up. The instances with
    the fewest tasks leave first, among these the instances with higher numbers; the leader's instance leaves last. To
    add instances, use add-members.
    """

    group: GroupName
    to: str = ""
    hosts: tuple[str, ...] = field(default=())

    def words(self) -> str:
        leave = f"{', '.join(self.hosts)} of {self.group} leave"
        if not self.to:
            return leave
        return f"scale {self.group} down to {self.to}{f', {leave}' if self.hosts else ''}"

    def check(self, table: Table, known: Known) -> None:
        if bool(self.to) == bool(self.hosts):
            table.problem("to", 'must be a percentage such as "80%", or give hosts instead')
        elif self.to and percentage(self.to) is None:
            table.problem("to", f'"{self.to}" must be a percentage from 1% to 100%, such as "80%"')
        if self.group not in known.streams:
            table.problem(
                "group", f"{self.group} is no group of Streams instances: it needs [groups.{self.group}.streams]"
            )
        for host in self.hosts:
            table.known("hosts", host, known.members_of(self.group), f"instance of {self.group}")

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.deployments.scale_down(
            self.group, percentage(self.to) or 0, tuple(dict.fromkeys(self.hosts))
        )


@action("keep-instance", "a Streams instance that was asked to leave stays", drawn=NEVER, workload=True)
class KeepInstance:
    """Cancel scale-down's request to an instance. The learners of the instance's tasks are dropped."""

    host: MemberHost

    def words(self) -> str:
        return f"{self.host} stays"

    def check(self, table: Table, known: Known) -> None:
        """The host must be an instance of a Streams application."""
        role = role_of(self.host)
        instances = tuple(host for group in known.streams for host in known.members_of(group))
        of_another = role is not None and role[1] not in known.streams
        if of_another or (self.host in known.members and self.host not in instances):
            table.problem("host", f"{self.host} is no instance of a Streams application")

    def apply(self, stage: Stage) -> Outcome:
        return stage.cluster.deployments.keep_instance(self.host)
