"""Proofs of the review items of 21_launch."""

from course_lib.probes.seats import environment
from course_lib.ranks.hang import find_the_hang
from course_lib.ranks.world import read_world
from tests.reviews import yes


def init_distributed_1(n):
    told = environment(n.m * n.P + n.l, per_machine=n.P, machines=n.m + 1)
    seat = read_world(told, 0)
    assert told["GROUP_RANK"] == str(n.m)
    return [seat["rank"], seat["local_rank"]]


def init_distributed_2(n):
    told = [environment(r, per_machine=n.P, machines=n.M) for r in range(n.M * n.P)]
    seats = [read_world(texts, n.G) for texts in told]
    assert all(int(seat["device"].partition(":")[2]) < n.G for seat in seats)
    return sum(seat["rank"] >= n.G for seat in seats)


def init_distributed_3(n):
    name = n.what.partition(",")[0]
    return yes(len({environment(r, per_machine=2, machines=2)[name] for r in range(4)}) == 1)


def find_the_hang_1(n):
    absent = [int(word) for word in n.who.replace(",", " ").split() if word.isdigit()]
    call = ("all_reduce", 64)
    lists = [[] if rank in absent else [(*call, False)] for rank in range(n.R)]
    assert find_the_hang(lists) == (0, absent)
    return "another"


def find_the_hang_2(n):
    lists = [[("all_reduce", 64, True)] * n.n + [("all_reduce", 64, False)] for _ in range(n.R)]
    del lists[n.r][n.n]
    place, (rank,) = find_the_hang(lists)
    return [place, rank]


def find_the_hang_3(n):
    words = n.b.split()
    name = "all_reduce" if words[0] == "one" else words[1]
    other = (name, int(words[words.index("bytes") - 1]), False)
    return yes(find_the_hang([[("all_reduce", n.a, False)]] * 3 + [[other]]))
