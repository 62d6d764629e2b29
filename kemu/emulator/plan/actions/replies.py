"""What happens to single requests: a reply that is lost, an error in place of an answer."""

from kemu.emulator.engine.rules import DuplicateRule
from kemu.emulator.plan.action import ANYONE, AnyHost, Api, action, nothing_more
from kemu.emulator.plan.actions.network import install_on, on_link
from kemu.emulator.plan.draw import Draw
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.protocol.commands import AnswerNext
from kemu.protocol.errors import ErrorCode

ERRORS: tuple[tuple[str, ErrorCode], ...] = (
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
"""Answers that a member has to survive."""


@action(
    "duplicate",
    "a request is executed, its reply lost: the retry comes twice",
    drawn=(),
    drawn_replicated=(lambda draw: Duplicate(api="StoreOps", sender=draw.broker(), nth=draw.chance.between(1, 5)),),
)
class Duplicate:
    """The ``nth`` request of this API from ``sender`` ("" = anyone) is delivered, its reply lost with the connection.

    So the client's retry makes the server see the request twice: the only duplicate that TCP allows.
    """

    api: Api
    sender: AnyHost = ANYONE
    nth: int = 1

    def words(self) -> str:
        """See ``Action``."""
        return f"lose the reply to request {self.nth} {self.api} of {self.sender or 'anyone'}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return install_on(stage, 0, self.sender, ANYONE, lambda sender, _: DuplicateRule(self.api, sender, self.nth))


def _drawn(draw: Draw) -> "ErrorReply":
    api, error = ERRORS[draw.chance.below(len(ERRORS))]
    return ErrorReply(api=api, sender=draw.member(), nth=draw.chance.between(1, 3), error=error)


@action("error-reply", "a request is answered with an error", drawn=(_drawn,))
class ErrorReply:
    """The server answers the ``nth`` request of this API from ``sender`` ("" = anyone) with an error, unexecuted."""

    api: Api
    sender: AnyHost = ANYONE
    nth: int = 1
    error: ErrorCode

    def words(self) -> str:
        """See ``Action``."""
        return f"answer request {self.nth} {self.api} of {self.sender or 'anyone'} with {self.error.name}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""

        def arm(sender: str, _: str) -> None:
            stage.inject(AnswerNext(api=self.api, sender=sender, nth=max(1, self.nth), error=self.error))

        return on_link(stage, self.sender, ANYONE, arm)
