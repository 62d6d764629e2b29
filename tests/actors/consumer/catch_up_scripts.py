"""Random scripts for the machines of KIP-333's mode, and what must hold after each event of one."""

import itertools

from kemu.emulator.chance import Seeded
from tests.actors.consumer.catch_up_stage import Stage

MOST_EVENTS = 18


def run_script(seed: int) -> Stage:
    """One script, drawn from a seed, then everybody works until all is done.

    Raises:
        AssertionError: a promise was broken; the message begins with the script so far.
    """
    draw = Seeded(seed).stream("script")
    stage = Stage(0, 0)
    stage.start()
    script = ["start"]
    committed = 0
    for _ in range(4 + draw.below(MOST_EVENTS - 3)):
        script.append(_event(stage, draw.below(100), draw.below(40), draw.below(4)))
        committed = _holds(stage, committed, script)
    if stage.member is None or stage.member.machine.membership.generation.id < 0:
        stage.start()
    if not stage.state()["child_alive"] and stage.state()["pending"]:
        stage.recover_secondary()
    for _ in range(3):
        stage.poll("primary", 10_000)
        stage.poll("secondary", 10_000)
        stage.commit("both")
    _holds(stage, committed, script)
    state = stage.state()
    assert state["committed"] == stage.log_end, f"{script}: committed {state['committed']} of {stage.log_end}"
    assert _delivered_below(stage, stage.log_end), f"{script}: {stage.delivered}"
    return stage


def _event(stage: Stage, kind: int, n: int, which: int) -> str:
    """Do something that fits; what it was."""
    member = stage.member
    owns = member is not None and member.machine.membership.generation.id >= 0
    if not owns:
        if kind < 25:
            stage.append(stage.log_end + n)
            return f"append {n}"
        if kind < 40:
            stage.fail_over()
            return "fail over"
        fails = ("", "", "read_end", "token")[which] if member is None else ""
        stage.start(fail_after=fails)
        return f"start {fails}"
    if kind < 30:
        stage.append(stage.log_end + n)
        return f"append {n}"
    if kind < 55:
        who = ("primary", "secondary")[which % 2]
        stage.poll(who, 1 + n)
        return f"poll {who} {n + 1}"
    if kind < 70:
        who = ("primary", "secondary", "both", "both")[which]
        stage.commit(who)
        return f"commit {who}"
    if kind < 78:
        return f"commitSync {stage.log_end - n}: {stage.commit_sync(max(0, stage.log_end - n))}"
    if kind < 84:
        stage.fail_over()
        return "fail over"
    if kind < 88:
        if not stage.state()["child_alive"]:
            stage.recover_secondary()
            return "second is back"
        stage.crash("secondary")
        return "second dies"
    if kind < 92:
        stage.lose(clean=True)
        return "leaves"
    who = ("both", "primary")[which % 2]
    stage.crash(who)
    return f"crash {who}"


def _holds(stage: Stage, before: int, script: list[str]) -> int:
    """J1, J2, J3, J6 and J8 after an event; what ``committed()`` answers now."""
    state = stage.state()
    tokens = [row[1:] for row in state["s_log"] if row[0] == "token"]
    said = f"{script}: {state}"
    assert all(start < end for start, end in tokens), f"J1: {said}"
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(tokens)), f"J1: {said}"
    seconds = [row[1] for row in state["s_log"] if row[0] == "commit"]
    for log in (state["p_log"], seconds):
        assert all(one < two for one, two in itertools.pairwise(log)), f"J2: {said}"
    assert state["committed"] >= before, f"J3, {before} before: {said}"
    assert _delivered_below(stage, state["committed"]), f"J3: {said}"
    if state["position"] is not None and tokens:
        assert state["position"] >= tokens[-1][1], f"J6: {said}"
    if not state["child_alive"] and stage.member is not None and state["position"] is not None:
        assert not state["pending"] or stage.child_is_dead, f"J8: {said}"
    return int(state["committed"])


def _delivered_below(stage: Stage, offset: int) -> bool:
    reached = 0
    for start, end in sorted((start, end) for _, start, end in stage.delivered):
        if start > reached:
            break
        reached = max(reached, end)
    return reached >= offset
