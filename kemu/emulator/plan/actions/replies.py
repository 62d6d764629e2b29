"""Faults of single requests: a lost reply, or an error as the answer."""

# mypy: no-implicit-reexport

from kemu.emulator.engine.rules import DuplicateRule
from kemu.emulator.plan.action import ANYONE, AnyHost, Api, action, nothing_more
from kemu.emulator.plan.draw import Draw
from kemu.emulator.plan.links import install_on, on_link
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.protocol.commands import AnswerNext
from kemu.protocol.errors import ErrorCode

_ERRORS: tuple[tuple[str, ErrorCode], ...] = (
    ("JoinGroup", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ("JoinGroup", ErrorCode.UNKNOWN_MEMBER_ID),
    ("SyncGroup", ErrorCode.REBALANCE_IN_PROGRESS),
    ("SyncGroup", ErrorCode.UNKNOWN_MEMBER_ID),
    ("SyncGroup", ErrorCode.ILLEGAL_GENERATION),
    ("Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID),
    ("Heartbeat", ErrorCode.ILLEGAL_GENERATION),
    ("Heartbeat", ErrorCode.NOT_COORDINATOR),
    ("OffsetCommit", ErrorCode.COORDINATOR_NOT_AVAILABLE),
)
"""Errors that random plans inject; a member has to survive each of them."""


@action(
    "duplicate",
    "a request is executed and its reply is lost: the retry is a duplicate",
    drawn=(),
    drawn_replicated=(lambda draw: Duplicate(api="StoreOps", sender=draw.broker(), nth=draw.chance.between(1, 5)),),
)
class Duplicate:
    """Deliver the ``nth`` request of this API from ``sender`` ("" for any host), lose its reply, and break the
    connection.

    After the client's retry, the server has received the request twice: the only duplicate that TCP allows.
    """

    api: Api
    sender: AnyHost = ANYONE
    nth: int = 1

    def words(self) -> str:
        return f"lose the reply to request {self.nth} {self.api} of {self.sender or 'anyone'}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return install_on(stage, 0, self.sender, ANYONE, lambda sender, _: DuplicateRule(self.api, sender, self.nth))


def _drawn(draw: Draw) -> "ErrorReply":
    api, error = _ERRORS[draw.chance.below(len(_ERRORS))]
    return ErrorReply(api=api, sender=draw.member(), nth=draw.chance.between(1, 3), error=error)


@action("error-reply", "a request is answered with an error", drawn=(_drawn,))
class ErrorReply:
    """Answer the ``nth`` request of this API from ``sender`` ("" for any host) with an error, without executing the
    request.
    """

    api: Api
    sender: AnyHost = ANYONE
    nth: int = 1
    error: ErrorCode

    def words(self) -> str:
        return f"answer request {self.nth} {self.api} of {self.sender or 'anyone'} with {self.error.name}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:

        def arm(sender: str, _: str) -> None:
            stage.inject(AnswerNext(api=self.api, sender=sender, nth=max(1, self.nth), error=self.error))

        return on_link(stage, self.sender, ANYONE, arm)
