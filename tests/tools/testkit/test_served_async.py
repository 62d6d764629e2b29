"""The fixture ``kemu_serve_async``: async services, in the event loops of several plugins."""

import pytest

from tests.tools.served_scenarios import served_scenario

pytest_plugins = ("pytester",)

CLUSTER = served_scenario(partitions=1, group="billing")
FAILOVER = """
    import asyncio
    import pytest
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from kemu.tools.testkit.served import NotServed

    CLUSTER = "cluster.toml"

    async def bill(consumer, billed):
        async for order in consumer:
            billed.append(order.value)
            await consumer.commit()

    @pytest.mark.asyncio
    async def test_no_order_is_lost_by_a_failover_of_the_coordinator(kemu_serve_async):
        cluster = await kemu_serve_async(CLUSTER)
        servers, billed = cluster.bootstrap_servers, []
        timing = dict(session_timeout_ms=6_000, heartbeat_interval_ms=500, enable_auto_commit=False)
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=servers, group_id="billing",
                                    auto_offset_reset="earliest", **timing)
        async with consumer, AIOKafkaProducer(bootstrap_servers=servers) as producer:
            service = asyncio.create_task(bill(consumer, billed))
            await cluster.wait("group billing Stable members=1", within="30s")
            await cluster.do("move-coordinator", group="billing")
            for number in range(10):
                await producer.send_and_wait("orders", b"%d" % number)
            seen = await cluster.wait("group billing Stable members=1 lag=0", within="60s")
            service.cancel()
        assert billed == [b"%d" % number for number in range(10)]
        assert "generation 1" in seen

    @pytest.mark.asyncio
    async def test_a_wait_lets_other_tasks_run_and_can_be_cancelled(kemu_serve_async):
        cluster = await kemu_serve_async(CLUSTER)
        wait = asyncio.create_task(cluster.wait("broker b1 down", within="50s"))
        assert await cluster.leader("orders-0") == "b0"
        assert (await cluster.state())["brokers"]["b1"]["state"] == "up"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait, 0.3)
        with pytest.raises(NotServed, match="not within 100ms"):
            await cluster.wait("broker b1 down", within="100ms")
"""
TRIO = """
    import pytest
    import trio

    CLUSTER = "cluster.toml"

    @pytest.mark.trio
    async def test_the_fixture_works_in_trio(kemu_serve_async):
        cluster = await kemu_serve_async(CLUSTER)
        with trio.move_on_after(0.3) as scope:
            await cluster.wait("broker b1 down", within="50s")
        assert scope.cancelled_caught
        assert await cluster.do("crash", host="b1", mode="process") == "crash b1 (process)"
        assert await cluster.wait("broker b1 down") == "broker b1: state down, life 1"
"""


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_a_service_of_aiokafka_is_tested_with_pytest_asyncio(inner: pytest.Pytester, mode: str) -> None:
    """A failover of the coordinator, without a sleep."""
    inner.makeini(f"[pytest]\nasyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\n")
    inner.makefile(".toml", cluster=CLUSTER)
    inner.makepyfile(FAILOVER)

    assert inner.runpytest_subprocess("-p", "asyncio").parseoutcomes()["passed"] == 2


def test_an_async_test_may_run_in_trio(inner: pytest.Pytester) -> None:
    inner.makefile(".toml", cluster=CLUSTER)
    inner.makepyfile(TRIO)

    assert inner.runpytest_subprocess().parseoutcomes() == {"passed": 1}
