"""A fault disturbs the hosts and links that it hits, for as long as it lasts, and nobody else."""

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kemu.emulator.facts import (
    CoreHealed,
    FaultApplied,
    FaultEnded,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    Seen,
)
from kemu.emulator.watching.disturbances import Disturbances
from kemu.protocol.notes.replication import NodeWritten, StoreFaultHit

HOSTS = ("b0", "b1", "b2", "zk")


def shown(*facts: object) -> Disturbances:
    """After these facts, one a second; every host started at 0."""
    found = Disturbances()
    started = [HostStarted(host=host, life=1, kept_disk=True) for host in HOSTS]
    for at_us, fact in [
        *((0, each) for each in started),
        *((1_000_000 * at, each) for at, each in enumerate(facts, 1)),
    ]:
        found.on[type(fact)](Seen(0, at_us, "", 0, fact), fact)
    return found


def lasting(*links: tuple[str, str]) -> FaultApplied:
    return FaultApplied(index=0, kind="split", text="", links=links, lasts=True)


def test_a_cut_between_two_hosts_disturbs_them_together_and_neither_alone():
    found = shown(lasting(("b0", "zk")))

    assert found.undisturbed_since_us(("b0", "zk", "b1")) is None
    assert found.undisturbed_since_us(("b0", "b1")) == 0
    assert found.undisturbed_since_us(("zk",)) == 0


def test_a_fault_of_a_whole_host_disturbs_all_that_need_it():
    found = shown(lasting(("b0", "")))

    assert found.undisturbed_since_us(("b0",)) is None
    assert found.undisturbed_since_us(("b1", "zk")) == 0


def test_clocks_run_again_from_the_end_of_a_fault():
    slow = FaultApplied(index=0, kind="slow", text="", links=(("b0", "zk"),), lasts=True)
    found = shown(slow, FaultEnded(index=0, kind="slow"))

    assert found.undisturbed_since_us(("b0", "zk")) == 2_000_000


def test_what_a_fault_kept_from_a_link_may_come_as_much_later_again_as_it_lasted():
    """TCP sends again after pauses that double (RFC 6298)."""
    found = shown(lasting(("b0", "zk")), FaultEnded(index=0, kind="split"))

    assert found.undisturbed_since_us(("b0", "zk")) == 3_000_000


def test_a_fault_without_duration_disturbs_at_its_moment():
    found = shown(FaultApplied(index=0, kind="disconnect", text="", links=(("b0", "zk"),)))

    assert found.undisturbed_since_us(("b0", "zk")) == 1_000_000


def test_a_host_that_is_down_or_paused_is_disturbed_until_it_runs_again():
    assert shown(HostDown(host="b0", life=1, how="power")).undisturbed_since_us(("b0",)) is None
    assert shown(HostPaused(host="b0")).undisturbed_since_us(("b0", "b1")) is None
    assert shown(HostPaused(host="b0"), HostResumed(host="b0")).undisturbed_since_us(("b0", "b1")) == 2_000_000


@given(st.lists(st.tuples(st.sampled_from(["c1", "c2"]), st.sampled_from(["", "b0", "zk", "c1"])), max_size=5))
def test_no_fault_of_a_member_disturbs_brokers_among_themselves(links: list[tuple[str, str]]):
    assert shown(lasting(*links)).undisturbed_since_us(HOSTS) == 0


def test_a_host_that_is_recalled_has_worked_undisturbed_since_then():
    away = CoreHealed(core=("b1",), away=("b0",), how="cut off", recalled=(), unrecoverable=())
    recalled = evolve(away, core=("b0", "b1"), away=(), recalled=("b0",))

    assert shown(away).undisturbed_since_us(("b0", "b1")) is None
    assert shown(away, recalled).undisturbed_since_us(("b0", "b1")) == 2_000_000
    assert shown(away, recalled).undisturbed_since_us(("b1", "b2")) == 0


def test_a_lost_answer_is_over_when_the_broker_writes_to_the_store_again():
    lost = evolve(lasting(("b0", "zk")), kind="lose-store-answer")
    hit = StoreFaultHit(fault="LoseStoreAnswer", client="b0", number=0)
    write = NodeWritten(what="set", path="/x", data=b"", version=1, zxid=1, client="b0")

    assert shown(lost, hit).undisturbed_since_us(("b0", "zk")) is None
    assert shown(lost, hit, evolve(write, client="b1")).undisturbed_since_us(("b0", "zk")) is None
    assert shown(lost, write).undisturbed_since_us(("b0", "zk")) is None
    assert shown(lost, hit, write).undisturbed_since_us(("b0", "zk")) == 3_000_000


def test_a_fault_hits_since_its_start_and_the_oldest_of_several_counts():
    away = CoreHealed(core=("b1",), away=("b0",), how="cut off", recalled=(), unrecoverable=())
    down = HostDown(host="b0", life=1, how="power")

    assert shown(HostPaused(host="b0"), down).hit_since_us(("b0", "b1")) == 1_000_000
    assert shown(HostPaused(host="b0"), HostResumed(host="b0")).hit_since_us(("b0",)) is None
    assert shown(down, lasting(("b1", "b2")), away).hit_since_us(("b1", "b2")) == 2_000_000
    assert shown(HostResumed(host="b0"), away).hit_since_us(("b0",)) == 2_000_000
    assert shown(lasting(("b0", "zk"))).hit_since_us(("b0", "b1")) is None
