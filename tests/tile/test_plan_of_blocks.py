"""What blocks of a cluster, blocks of a row of tiles and teams of a block say to each other: each statement is needed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from autocomp.tile.check_plan import problems
from autocomp.tile.plan import (
    Agents,
    Barrier,
    Block,
    Box,
    ClusterBarrier,
    Count,
    Fence,
    Flag,
    Inbox,
    NamedBarrier,
    Node,
    Reach,
    Signal,
)

Body = tuple[Node, ...]


def without(body: Body, path: tuple[int, ...]) -> Body:
    """The plan without the statement at a path."""
    i, *rest = path
    inside = (replace(body[i], body=without(body[i].body, tuple(rest))),) if rest else ()
    return body[:i] + inside + body[i + 1 :]


MADE = Block("if (threadIdx.x == 0)", (Box("mbarriers", "write", far=True), Fence("", "mbarriers")), alone=True)
ZERO, NEXT = Count("q", "", begin=True, times=0), Count("q", "")
PRODUCE = Signal("wait", "empty", "q", 2), Signal("fill", "full", "q", 2, far=True), NEXT
TAKE = Signal("wait", "full", "q", 2), Signal("arrive", "empty", "q", 2, far=True), NEXT
MULTICAST = (
    Agents(2), MADE, Barrier("cluster"),
    Block("if (team == 0)", (ZERO, Block("for", PRODUCE, again="it"), Barrier("cluster")), role="producer"),
    ZERO, Block("for", TAKE, again="it"), Barrier("cluster"),
)  # fmt: skip


def test_blocks_of_a_cluster_bring_a_factor_for_all():
    assert problems(MULTICAST) == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ((1, 1), "the producer of block 0 reads mbarriers which .* writes?, and no fence stands between"),
        ((2,), "reads mbarriers which .* writes?, and nothing orders the two"),
        ((3, 1, 0), "the producer of block 0 arrives at full of q before its phase has ended"),
        ((3, 1, 1), "waits at full of q"),
        ((5, 0), "reads a slot of q which bulk copies write, and nothing orders the two"),
        ((5, 1), "waits at empty of q"),
        ((6,), "stuck: the producer of block 0 waits at Barrier"),
    ],
)
def test_a_shared_factor_needs_each(path, said):
    assert any(re.search(said, x) for x in problems(without(MULTICAST, path)))


def test_a_block_stays_while_others_arrive_at_its_barriers():
    alone = without(without(MULTICAST, (6,)), (3, 2))
    assert any(x == "block 0 may end while others read mbarriers" for x in problems(alone))


SENT = (
    Agents(3), Block("if (threadIdx.x == 0)", (*MADE.body, Inbox("expect")), alone=True), ClusterBarrier("arrive", ""), Barrier("block"),
    Block("if (team == 0)", (ClusterBarrier("wait", ""),), role="producer"),
    ClusterBarrier("wait", ""), Inbox("send"), Inbox("wait"), Inbox("read"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ((1, 2), "stuck: team 0 of block 0 waits at wait of Inbox"),
        ((2,), "waits at a cluster barrier that it has not come to"),
        ((4, 0), "the producer of block 0 ends between the halves of a cluster's barrier"),
        ((5,), "team 0 of block 0 reads mbarriers which .* writes?, and nothing orders the two"),
        ((6,), "waits at wait of Inbox"),
        ((7,), "reads an inbox which .* writes?, and nothing orders the two"),
    ],
)
def test_sums_that_blocks_send_each_other(path, said):
    assert problems(SENT) == []
    assert any(re.search(said, x) for x in problems(without(SENT, path)))


LEFT = Block("if", (Reach("sums", True), Fence("", "sums"), Barrier("consumers"), Flag("set", "")), row="later")
TAKEN = Block("for", (Flag("take", ""), Barrier("consumers"), Reach("sums", False, "other")), row="others")
STREAM = Agents(3, producer=False, row=True), Block("for", (LEFT, Block("else if", (TAKEN,), row="first")), again="wave_of")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ((1, 0, 1), "reads sums of a block which .* writes?, and no fence stands between"),
        ((1, 0, 2), "reads sums of a block which .* writes?, and nothing orders the two"),
        ((1, 0, 3), "waits at take of Flag"),
        ((1, 1, 0, 0), "a flag is left set, for the next launch"),
        ((1, 1, 0, 1), "writes sums of a block which team 1 of block 0 reads, and nothing orders the two"),
    ],
)
def test_sums_behind_flags(path, said):
    assert problems(STREAM) == []
    assert any(re.search(said, x) for x in problems(without(STREAM, path)))


ORDER = (
    Agents(1, 3, producer=False), NamedBarrier("pass", "", 1, -1),
    Block("for", (NamedBarrier("sync", ""), Reach("products", True, "teams"), NamedBarrier("pass", "", 1)), again="it"),
    NamedBarrier("sync", "", only=0),
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ((1,), "stuck: team 0 waits at sync of NamedBarrier"),
        ((2, 0), "writes what teams start in turn which .* writes?, and nothing orders the two"),
        ((2, 2), "waits at sync of NamedBarrier"),
        ((3,), "a named barrier is left that not all have come to"),
    ],
)
def test_teams_in_turn(path, said):
    assert problems(ORDER) == []
    assert any(re.search(said, x) for x in problems(without(ORDER, path)))


def test_plans_without_agents_have_no_peers():
    assert problems((Barrier("block"), Inbox("read"))) == []
