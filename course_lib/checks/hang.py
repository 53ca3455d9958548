"""Checks of lesson 21, second part: find_the_hang.

Oracle: `find_right`, rank by rank instead of place by place. Mistakes are functions too: an answer that
gives what one of them gives is named after it.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite

Lists = list[list[tuple[str, int, bool]]]
Found = tuple[int, list[int]] | None


def done_call(name: str, size: int = 64) -> tuple[str, int, bool]:
    """A call that has come back."""
    return name, size, True


def open_call(name: str, size: int = 64) -> tuple[str, int, bool]:
    """A call that has not."""
    return name, size, False


def _kinds(lists: Lists, place: int, *, key: Callable = lambda call: call[:2]) -> list:
    return [key(calls[place]) if place < len(calls) else None for calls in lists]


def _open(lists: Lists, place: int) -> list[int]:
    """The ranks whose call at that place is not done."""
    return [r for r, calls in enumerate(lists) if place < len(calls) and not calls[place][2]]


def _ranks_to_blame(kinds: list) -> list[int]:
    if None in kinds:
        return [r for r, kind in enumerate(kinds) if kind is None]
    counts = Counter(kinds)
    largest = [kind for kind in counts if counts[kind] == max(counts.values())]
    return [r for r, kind in enumerate(kinds) if len(largest) > 1 or kind != largest[0]]


def find_right(
    lists: Lists,
    key: Callable = lambda call: call[:2],
    blame: Callable = _ranks_to_blame,
    over_too: bool = False,
) -> Found:
    """What find_the_hang should say; the options bend one thing each, as wrong answers do."""
    for place in range(max((len(calls) for calls in lists), default=0)):
        kinds = _kinds(lists, place, key=key)
        if len(set(kinds)) > 1 and (over_too or _open(lists, place)):
            return place, blame(kinds)
    return None


def _victims(lists: Lists) -> Found:
    found = find_right(lists)
    return found and (found[0], _open(lists, found[0]))


def _the_rest(lists: Lists) -> Found:
    found = find_right(lists)
    return found and (found[0], [r for r in range(len(lists)) if r not in found[1]])


def _compare_lengths(lists: Lists) -> Found:
    """A wrong answer: the shortest lists are to blame, whatever calls they hold."""
    lengths = [len(calls) for calls in lists]
    if len(set(lengths)) < 2:
        return None
    return min(lengths), [r for r, n in enumerate(lengths) if n == min(lengths)]


def _to_the_shortest(lists: Lists) -> Found:
    shortest = min(map(len, lists), default=0)
    return find_right([calls[:shortest] for calls in lists])


def _not_rank_0(kinds: list) -> list[int]:
    return [r for r, kind in enumerate(kinds) if kind != kinds[0]]


def _minority(kinds: list) -> list[int]:
    """Ranks without the most common call; issuing nothing counts as a call too."""
    counts = Counter(kinds)
    return [r for r, kind in enumerate(kinds) if kind != counts.most_common(1)[0][0]]


def _one_of_two(kinds: list) -> list[int]:
    """Ranks outside of the largest group; of two equal groups, the one seen first is right."""
    most = None if None in kinds else Counter(kinds).most_common(1)[0][0]
    return [r for r, kind in enumerate(kinds) if (kind is None if None in kinds else kind != most)]


def _more_than_half(kinds: list) -> list[int]:
    """A largest group that is no majority does not count."""
    counts = Counter(kinds)
    if None not in kinds and 2 * max(counts.values()) <= len(kinds):
        return list(range(len(kinds)))
    return _ranks_to_blame(kinds)


def _absent_and_others(kinds: list) -> list[int]:
    """Ranks that have issued nothing, and beside them those with another call than most."""
    most = Counter(kind for kind in kinds if kind is not None).most_common(1)[0][0]
    return [r for r, kind in enumerate(kinds) if kind != most]


def _one_alone(kinds: list) -> list[int]:
    return _ranks_to_blame(kinds)[:1]


def _shortest_alone(lists: Lists) -> Found:
    """Of the ranks that have issued nothing there, only those with the fewest calls."""
    found = find_right(lists)
    fewest = min(map(len, lists), default=0)
    if not found or fewest > found[0]:
        return found
    return found[0], [r for r, calls in enumerate(lists) if len(calls) == fewest]


def _at_the_first_open(lists: Lists) -> Found:
    """The first place with an open call alone is looked at."""
    for place in range(max(map(len, lists), default=0)):
        if _open(lists, place):
            kinds = _kinds(lists, place)
            return (place, _ranks_to_blame(kinds)) if len(set(kinds)) > 1 else None
    return None


def _last_calls(lists: Lists) -> Found:
    kinds = [calls[-1][:2] if calls else None for calls in lists]
    if len(set(kinds)) < 2:
        return None
    return max(map(len, lists)) - 1, _ranks_to_blame(kinds)


def _shift_place(by: int) -> Callable:
    def find_shifted(lists: Lists) -> Found:
        found = find_right(lists)
        return found and (found[0] + by, found[1])

    return find_shifted


MISTAKES = (
    (
        "HANG-VICTIM",
        _victims,
        "the ranks that wait are named",
        "those whose call has not come back.",
        "who waits for whom.",
    ),
    (
        "HANG-VICTIM",
        _the_rest,
        "the ranks that wait are named",
        "all but those to look at.",
        "who waits for whom.",
    ),
    (
        "HANG-FROM-ONE",
        _shift_place(1),
        "the place is one too far",
        "places counted from 1.",
        "the first call has place 0.",
    ),
    (
        "HANG-FROM-ONE",
        _shift_place(-1),
        "the place is one too early",
        "the last place where all agree.",
        "the first call has place 0.",
    ),
    (
        "HANG-NAMES",
        lambda x: find_right(x, key=lambda call: call[0]),
        "only the names are compared",
        "two calls taken for the same whatever their bytes.",
        "what makes two calls the same.",
    ),
    (
        "HANG-BYTES",
        lambda x: find_right(x, key=lambda call: call[1]),
        "only the bytes are compared",
        "two calls taken for the same whatever their names.",
        "what makes two calls the same.",
    ),
    (
        "HANG-FINISHED",
        lambda x: find_right(x, over_too=True),
        "the end of a list is taken for a hang",
        "a place where everybody's call is done.",
        "`done`: who waits there?",
    ),
    (
        "HANG-DONE-TWICE",
        lambda x: find_right(x, key=lambda call: call),
        "`done` makes calls different",
        "whole triples compared: one rank may be back a moment before another.",
        "what makes two calls the same.",
    ),
    (
        "HANG-TO-SHORTEST",
        _to_the_shortest,
        "what is missing is not seen",
        "a comparison that ends with the shortest list, as `zip` does.",
        "places that only some lists have.",
    ),
    (
        "HANG-LENGTHS",
        _compare_lengths,
        "only the lengths are compared",
        "the shortest list.",
        "calls of the same number that are not the same.",
    ),
    (
        "HANG-RANK-0",
        lambda x: find_right(x, blame=_not_rank_0),
        "rank 0 is never the one",
        "every rank compared with rank 0.",
        "whom most ranks agree with.",
    ),
    (
        "HANG-MAJORITY",
        lambda x: find_right(x, blame=_minority),
        "most ranks outvote the one that waits",
        "having issued nothing counted as one more kind of call.",
        "for whom the one rank waits.",
    ),
    (
        "HANG-TIE",
        lambda x: find_right(x, blame=_one_of_two),
        "one of two equal groups is chosen",
        "the group that was met first taken for the largest.",
        "what no vote can decide.",
    ),
    (
        "HANG-HALF",
        lambda x: find_right(x, blame=_more_than_half),
        "the largest group has to be more than half of the ranks",
        "a majority asked for, where the largest group is enough.",
        "which group is the largest when none has most ranks.",
    ),
    (
        "HANG-ABSENT",
        lambda x: find_right(x, blame=_absent_and_others),
        "ranks that came are named beside those that did not",
        "two rules at once: having issued nothing, and having issued another call.",
        "which rule holds when some rank has issued nothing.",
    ),
    (
        "HANG-ABSENT",
        _shortest_alone,
        "not all that have issued nothing there are named",
        "the ranks with the fewest calls alone.",
        "every list that ends before that place.",
    ),
    (
        "HANG-ABSENT",
        lambda x: find_right(x, blame=_one_alone),
        "one rank is named where there are several",
        "the first of them.",
        "the docstring: ranks.",
    ),
    (
        "HANG-NO-BYTES",
        lambda x: find_right(x, key=lambda call: call[:2] if call[1] else None),
        "a call without bytes is taken for none",
        "0 bytes read as nothing issued.",
        "how a call that was not issued is told from others.",
    ),
    (
        "HANG-FIRST-OPEN",
        _at_the_first_open,
        "the search ends too early",
        "only the first place where a call is not done.",
        "what follows a place where all agree.",
    ),
    (
        "HANG-LAST",
        _last_calls,
        "only the last calls are compared",
        "the end of each list.",
        "the first place where the ranks part.",
    ),
)


def _compare(
    subject: Subject,
    lists: Lists,
    tried: str,
    *,
    first: str = "",
    code: str = "OTHER",
    finding: str = "the answer is another one",
    look: str = "the docstring.",
    named: bool = True,
) -> None:
    """The answer is right; else the mistake that gives the same, `first` before others, or `code`.

    Unless `named`: then it is `code`, for a mistake that has not shown elsewhere is another one.
    """
    wanted = find_right(lists)
    facts = dict(tried=tried, expected=_format_found(wanted))
    try:
        out = subject.call(lists)
    except AnswerError as failure:
        if code == "OTHER" or isinstance(failure.error, (NotImplementedError, NameError)):
            raise
        got = f"{type(failure.error).__name__}: {failure.error}"[:70]
        raise Wrong(code, finding, got=got, look=look, **facts) from None
    found = _read_found(out, facts)
    if found == wanted:
        return
    facts["got"] = _format_found(found)
    if found and wanted and found[0] == wanted[0] and sorted(found[1]) == wanted[1]:
        raise Wrong("HANG-ORDER", "the ranks are not in rising order", look="the order.", **facts)
    known = sorted(MISTAKES, key=lambda m: m[0] != first) if named else ()
    for name, mistake, said, fits, where in known:
        if mistake(lists) == found:
            raise Wrong(name, said, fits=fits, look=where, preset=PRESETS.get(name, ""), **facts)
    raise Wrong(code, finding, look=look, **facts)


PRESETS = {"HANG-VICTIM": "desync:default", "HANG-TO-SHORTEST": "desync:default",
           "HANG-NAMES": "desync:size", "HANG-LENGTHS": "desync:order",
           "HANG-RANK-0": "desync:extra"}  # fmt: skip


def _read_found(out: Any, facts: dict) -> Found:
    """A pair of an int and a list of ints, or None; else `Wrong`."""
    if out is None:
        return None
    pair = isinstance(out, (tuple, list)) and len(out) == 2 and isinstance(out[1], (tuple, list))
    if not pair or not all(type(n) is int for n in (out[0], *out[1])):
        raise Wrong(
            "TYPE",
            "not a place and a list of ranks",
            **facts,
            got=f"{type(out).__name__}: {out!r}"[:70],
            look="the docstring: Returns.",
        )
    return out[0], list(out[1])


def _format_found(found: Found) -> str:
    return "None" if found is None else f"place {found[0]}, ranks {found[1]}"


def does_not_come(subject: Subject, draw: Draw) -> None:
    """One rank has issued less: the others wait for it."""
    ranks, absent = draw.size(3, 4, 5), draw.size(1, 2)
    lists = [
        [done_call("broadcast"), done_call("all_reduce"), open_call("all_reduce", 256)]
        for _ in range(ranks)
    ]
    del lists[absent][2]
    tried = f"{ranks} ranks, 3 calls each; rank {absent} has made 2 of them"
    _compare(subject, lists, tried)


def parts(subject: Subject, draw: Draw) -> None:
    """All have issued a third call, and one of them another one; then the same in bytes alone."""
    ranks, odd = draw.size(4, 5), draw.size(3, 2, 1)
    for other, first, what in (
        (("all_gather", 32), "HANG-LENGTHS", "all_gather, 32 bytes"),
        (("all_reduce", 60), "HANG-NAMES", "all_reduce, 60 bytes"),
        (("all_gather", 64), "HANG-BYTES", "all_gather, 64 bytes"),
    ):
        lists = [
            [done_call("broadcast"), done_call("all_reduce"), open_call("all_reduce")]
            for _ in range(ranks)
        ]
        lists[odd][2] = open_call(*other)
        tried = f"{ranks} ranks; third call all_reduce, 64 bytes; on rank {odd} {what}"
        _compare(subject, lists, tried, first=first)
    lists = [[done_call("all_reduce"), open_call("all_reduce")] for _ in range(ranks)]
    lists[0].insert(1, done_call("barrier", 4))
    tried = f"{ranks} ranks; rank 0 has made one more call in between"
    _compare(subject, lists, tried, first="HANG-RANK-0")


def nobody_waits(subject: Subject, draw: Draw) -> None:
    """Lists that are the same, done or not, and a longer one that is over: no hang."""
    calls = [done_call("all_reduce"), done_call("broadcast", 8)]
    _compare(subject, [list(calls) for _ in range(3)], "3 ranks, the same 2 calls, all done")
    back = [
        [done_call("all_reduce"), call] for call in (done_call("barrier"), open_call("barrier"))
    ]
    _compare(subject, back, "2 ranks, the same 2 calls; one rank is back from the second")
    lists = [[*calls, done_call("broadcast", 8)], list(calls), list(calls)]
    _compare(subject, lists, "3 ranks, all done; rank 0 has made one broadcast more")


def nothing_issued(subject: Subject, draw: Draw) -> None:
    """A rank that has issued nothing is the one, where another waits; without any call there is no
    hang, nor without any rank."""
    how = dict(
        code="HANG-EMPTY",
        finding="an empty list is not understood",
        look="a rank that has not issued anything.",
    )
    _compare(
        subject,
        [[open_call("all_reduce")], [], [open_call("all_reduce")]],
        "3 ranks; rank 1 has issued nothing",
        **how,
    )
    _compare(subject, [[], []], "2 ranks that have issued nothing", **how)
    waits = [open_call("all_reduce")]
    for lists, tried in (
        ([[]], "1 rank, which has issued nothing"),
        (
            [[], waits, waits],
            "3 ranks; rank 0 has issued nothing, 1 and 2 wait in their first call",
        ),
        ([[done_call("send")], []], "2 ranks; rank 1 has issued nothing, and rank 0 is done"),
        (
            [[done_call("send"), *waits], [], [done_call("send"), *waits]],
            "3 ranks; 0 and 2 wait in their second call, the first is done; 1 has issued nothing",
        ),
    ):
        _compare(subject, lists, tried, named=False, **how)
    tried = "3 ranks; rank 0 alone has issued a call, and waits"
    _compare(subject, [waits, [], []], tried, first="HANG-MAJORITY", **how)
    for none in ([], ()):
        tried = f"no ranks: an empty {type(none).__name__}"
        _compare(subject, none, tried, **(how | dict(look="what no list at all does.")))


def votes(subject: Subject, draw: Draw) -> None:
    """Who has issued nothing is looked at, even when most have; with no largest group, all."""
    lists = [[done_call("all_reduce")] for _ in range(draw.size(4, 5))]
    lists[2].append(open_call("barrier", 4))
    tried = f"{len(lists)} ranks; rank 2 alone waits in a second call"
    _compare(subject, lists, tried, first="HANG-MAJORITY")
    lists = [[open_call(name)] for name in ("all_reduce", "all_reduce", "all_gather", "all_gather")]
    _compare(subject, lists, "4 ranks, two in all_reduce, two in all_gather", first="HANG-TIE")
    lists = [[open_call("all_reduce", 8)], [open_call("all_reduce", 4)]]
    _compare(subject, lists, "2 ranks, all_reduce of 8 and of 4 bytes", first="HANG-TIE")


def groups(subject: Subject, draw: Draw) -> None:
    """The largest of many groups, with fewer than half of the ranks; those outside, in order."""
    outside = ("all_gather", "broadcast", "all_gather", "barrier", "reduce")[: draw.size(4, 5)]
    names = [x for other in outside for x in (other, "all_reduce")][: 2 * len(outside) - 1]
    lists = [[open_call(name)] for name in names]
    tried = f"{len(names)} ranks, each waits: {', '.join(names)}"
    _compare(subject, lists, tried, first="HANG-HALF")


def absent_beside_others(subject: Subject, draw: Draw) -> None:
    """Ranks that have issued nothing there are the ones, all of them, whatever the others do."""
    for fewest in (2, draw.size(1, 0)):
        lists = [[done_call("broadcast"), done_call("all_reduce", 8)] for _ in range(6)]
        for rank, name in ((0, "all_reduce"), (2, "all_gather"), (3, "all_reduce")):
            lists[rank].append(open_call(name, 32))
        del lists[4][fewest:]
        tried = (
            "6 ranks; the third call: ranks 0 and 3 in all_reduce, rank 2 in all_gather, "
            f"1 and 5 have made 2 calls, rank 4 has made {fewest}"
        )
        _compare(subject, lists, tried, first="HANG-ABSENT")


def no_bytes(subject: Subject, draw: Draw) -> None:
    """A barrier of 0 bytes is a call as others are."""
    for absent in (False, True):
        lists = [[done_call("all_reduce"), open_call("barrier", 0)] for _ in range(draw.size(3, 4))]
        lists[1][1:] = [] if absent else [open_call("all_reduce")]
        what = "has not issued it" if absent else "is in all_reduce, 64 bytes"
        tried = f"{len(lists)} ranks wait in a barrier of 0 bytes, their second call; rank 1 {what}"
        _compare(subject, lists, tried, first="HANG-NO-BYTES")


def agree_first(subject: Subject, draw: Draw) -> None:
    """A place where all agree is no hang, whoever is back from it; they may part behind it."""
    lists = [[open_call("all_reduce"), done_call("barrier", 0)] for _ in range(draw.size(3, 4))]
    lists[0][0] = done_call("all_reduce")
    for rank, own in enumerate(lists):
        own.append(open_call("all_gather", 16 if rank == 1 else 32))
    tried = f"{len(lists)} ranks; not all are back from the first call; rank 1 differs at the third"
    _compare(subject, lists, tried, first="HANG-FIRST-OPEN")
    _compare(subject, [[open_call("all_reduce")]], "1 rank, which waits in its only call")


def nearly_the_same(subject: Subject, draw: Draw) -> None:
    """Names and bytes are compared whole; with two largest groups and a third, all ranks count."""
    odd = draw.size(1, 2, 0)
    for usual, other in (
        (("all_reduce_1", 28), ("all_reduce_12", 8)),
        (("all_gather_first", 64), ("all_gather_second", 64)),
        (("broadcast", 64), ("Broadcast", 64)),
        (("broadcast", 60), ("broadcast", 62)),
        (("broadcast", 2**53), ("broadcast", 2**53 + 1)),
    ):
        lists = [[open_call(*usual)] for _ in range(3)]
        lists[odd] = [open_call(*other)]
        _compare(
            subject,
            lists,
            f"3 ranks in {usual[0]}, {usual[1]:,} bytes; rank {odd} in {other[0]}, {other[1]:,}",
            code="HANG-NEARLY",
            finding="calls that are nearly the same are taken for the same",
            look="what is made of name and bytes before they are compared.",
            named=False,
        )
    names = ("all_reduce", "barrier", "all_gather", "all_gather", "all_reduce")
    _compare(
        subject,
        [[open_call(name)] for name in names],
        f"5 ranks, each waits: {', '.join(names)}",
        code="HANG-TIE",
        finding="not all ranks are named where no group is largest",
        look="what no vote can decide.",
        named=False,
    )


def long_lists(subject: Subject, draw: Draw) -> None:
    """Hundreds of calls before the ranks part."""
    before = [done_call("all_reduce", 4 * size) for size in range(draw.size(300, 400))]
    lists = [[*before, open_call("barrier")], list(before), [*before, open_call("barrier")]]
    _compare(
        subject,
        lists,
        f"3 ranks, {len(before)} calls done; then rank 1 has issued nothing",
        code="HANG-LONG",
        finding="the end of long lists is not reached",
        look="how many places are looked at.",
        named=False,
    )


def any_lists(subject: Subject, draw: Draw) -> None:
    """Sixty random runs of 1 to 12 ranks: lists cut, calls exchanged, any call not back."""
    for _ in range(60):
        ranks, length = (int(draw.randint(low, high, (1,))) for low, high in ((1, 13), (1, 6)))
        calls = [_draw_call(draw) for _ in range(length)]
        lists = [list(calls) for _ in range(ranks)]
        few, place = int(draw.randint(0, ranks, (1,))), int(draw.randint(0, length, (1,)))
        for rank in draw.randint(0, ranks, (few,)).tolist():
            if int(draw.randint(0, 3, (1,))):
                lists[rank][place:] = [_draw_call(draw), *lists[rank][place + 1 :]]
            else:
                del lists[rank][int(draw.randint(0, length, (1,))) :]
        for own in lists:
            for at in range(len(own)):
                if not int(draw.randint(0, 1 + 2 * (len(own) - at), (1,))):
                    own[at] = open_call(*own[at][:2])
        _compare(subject, lists, f"{ranks} ranks: {_draw_lists(lists)}", named=False)


def _draw_call(draw: Draw) -> tuple[str, int, bool]:
    which = int(draw.randint(0, 4, (1,)))
    return done_call(("all_reduce", "all_gather", "barrier", "all_reduce")[which], 4 * which)


def _draw_lists(lists: Lists) -> str:
    """Lists as letters and bytes: A4 for all_reduce, G, B; small while it waits."""
    short = {"all_reduce": "A", "all_gather": "G", "barrier": "B"}
    rows = [
        "".join(f"{short[n] if done else short[n].lower()}{size}" for n, size, done in own)
        for own in lists
    ]
    return ", ".join(row or "-" for row in rows) + " (small: not back)"


SUITES = (
    Suite(
        "find-the-hang",
        (
            does_not_come,
            parts,
            nobody_waits,
            nothing_issued,
            votes,
            no_bytes,
            agree_first,
            groups,
            absent_beside_others,
            nearly_the_same,
            long_lists,
            any_lists,
        ),
        tested="you find the place where ranks part, and the ranks that issued nothing "
        "there, or else another call than most.",
        remember="a timeout is raised by ranks that wait. Calls say where ranks part, not who is wrong: "
        "beside one call too many, the others may look late.",
        next_step="Diary around your own script's collectives, read_diaries, then find_the_hang.",
    ),
)
