# Answers to the exercise find-the-hang.

# %% right columns
def find_the_hang(calls_by_rank):
    for place, column in enumerate(zip_longest(*calls_by_rank)):
        if not any(call is not None and not call[2] for call in column):
            continue
        groups = {}
        for rank, call in enumerate(column):
            groups.setdefault(None if call is None else tuple(call[:2]), []).append(rank)
        if None in groups:
            return place, groups[None]
        if len(groups) > 1:
            by_size = sorted(groups.values(), key=len)
            if len(by_size[-1]) == len(by_size[-2]):
                return place, list(range(len(column)))
            return place, sorted(r for group in by_size[:-1] for r in group)
    return None

# %% right loops and counts
def find_the_hang(calls_by_rank):
    ranks = range(len(calls_by_rank))
    place = 0
    while any(place < len(calls) for calls in calls_by_rank):
        there = [r for r in ranks if place < len(calls_by_rank[r])]
        if any(not calls_by_rank[r][place][2] for r in there):
            absent = [r for r in ranks if r not in there]
            if absent:
                return place, absent
            kinds = [(calls_by_rank[r][place][0], calls_by_rank[r][place][1]) for r in ranks]
            sizes = [kinds.count(kind) for kind in kinds]
            if len(set(kinds)) > 1:
                if len({k for k, n in zip(kinds, sizes) if n == max(sizes)}) > 1:
                    return place, list(ranks)
                return place, [r for r in ranks if sizes[r] != max(sizes)]
        place += 1

# %% right a helper
def find_the_hang(calls_by_rank):
    def at(place):
        return [calls[place] if len(calls) > place else ("nothing", 0, True) for calls in calls_by_rank]

    longest = max([len(calls) for calls in calls_by_rank] + [0])
    for place in range(longest):
        names = [tuple(call[:2]) for call in at(place)]
        if all(call[2] for call in at(place)) or len(set(names)) == 1:
            continue
        absent = [r for r, name in enumerate(names) if name == ("nothing", 0)]
        counts = Counter(names).most_common()
        if not absent and counts[0][1] == counts[1][1]:
            absent = [r for r, _ in enumerate(names)]
        return place, absent or [r for r, name in enumerate(names) if name != counts[0][0]]
    return None

# %% right in plain steps
def find_the_hang(calls_by_rank):
    for place in range(max(map(len, calls_by_rank), default=0)):
        here = [calls[place] if place < len(calls) else None for calls in calls_by_rank]
        if all(call is None or call[2] for call in here):
            continue
        same = [call and tuple(call[:2]) for call in here]
        if None in same:
            return place, [rank for rank, call in enumerate(same) if call is None]
        (most, size), *others = Counter(same).most_common()
        if others:
            tie = others[0][1] == size
            return place, [rank for rank, call in enumerate(same) if tie or call != most]
    return None

# %% wrong STUB untouched
def find_the_hang(calls_by_rank):
    raise NotImplementedError("your code here")

# %% wrong HANG-VICTIM those who wait
def find_the_hang(calls_by_rank):
    for place in range(max(map(len, calls_by_rank), default=0)):
        here = [calls[place] if place < len(calls) else None for calls in calls_by_rank]
        same = [call and tuple(call[:2]) for call in here]
        waiting = [rank for rank, call in enumerate(here) if call and not call[2]]
        if waiting and len(set(same)) > 1:
            return place, waiting
    return None

# %% wrong HANG-VICTIM the most common ones
def find_the_hang(calls_by_rank):
    for place in range(max(map(len, calls_by_rank), default=0)):
        here = [calls[place] if place < len(calls) else None for calls in calls_by_rank]
        same = [call and tuple(call[:2]) for call in here]
        if len(set(same)) > 1 and not all(call is None or call[2] for call in here):
            most = Counter(same).most_common(1)[0][0]
            return place, [rank for rank, call in enumerate(same) if call == most]
    return None

# %% wrong HANG-FROM-ONE counts from 1
- return place, [rank for rank, call in enumerate(same) if call is None]
+ return place + 1, [rank for rank, call in enumerate(same) if call is None]

- return place, [rank for rank, call in enumerate(same) if tie or call != most]
+ return place + 1, [rank for rank, call in enumerate(same) if tie or call != most]

# %% wrong HANG-FROM-ONE the last call that came back
def find_the_hang(calls_by_rank):
    done = [sum(call[2] for call in calls) for calls in calls_by_rank]
    least = min(map(len, calls_by_rank))
    return max(done) - 1, [rank for rank, calls in enumerate(calls_by_rank) if len(calls) == least]

# %% wrong HANG-NAMES bytes are not compared
- same = [call and tuple(call[:2]) for call in here]
+ same = [call and call[0] for call in here]

# %% wrong HANG-BYTES names are not compared
- same = [call and tuple(call[:2]) for call in here]
+ same = [call and call[1] for call in here]

# %% wrong HANG-FINISHED `done` is not looked at
- here = [calls[place] if place < len(calls) else None for calls in calls_by_rank]
- if all(call is None or call[2] for call in here):
-     continue
- same = [call and tuple(call[:2]) for call in here]
+ same = [calls[place][:2] if place < len(calls) else None for calls in calls_by_rank]

# %% wrong HANG-DONE-TWICE whole triples
- here = [calls[place] if place < len(calls) else None for calls in calls_by_rank]
- if all(call is None or call[2] for call in here):
+ same = [calls[place] if place < len(calls) else None for calls in calls_by_rank]
+ if all(call is None or call[2] for call in same):
      continue
- same = [call and tuple(call[:2]) for call in here]

# %% wrong HANG-TO-SHORTEST zip
def find_the_hang(calls_by_rank):
    for place, here in enumerate(zip(*calls_by_rank)):
        if all(call[2] for call in here):
            continue
        same = [tuple(call[:2]) for call in here]
        (most, size), *others = Counter(same).most_common()
        if others:
            tie = others[0][1] == size
            return place, [rank for rank, call in enumerate(same) if tie or call != most]
    return None

# %% wrong HANG-LENGTHS the shortest list
def find_the_hang(calls_by_rank):
    least = min((len(calls) for calls in calls_by_rank), default=0)
    if all(len(calls) == least for calls in calls_by_rank):
        return None
    return least, [rank for rank, calls in enumerate(calls_by_rank) if len(calls) == least]

# %% wrong HANG-RANK-0 rank 0 is always right
def find_the_hang(calls_by_rank):
    for place in range(max(map(len, calls_by_rank), default=0)):
        here = [calls[place] if place < len(calls) else None for calls in calls_by_rank]
        if all(call is None or call[2] for call in here):
            continue
        same = [call and tuple(call[:2]) for call in here]
        odd = [rank for rank, call in enumerate(same) if call != same[0]]
        if odd:
            return place, odd
    return None

# %% wrong HANG-LAST the last calls
def find_the_hang(calls_by_rank):
    longest = max(map(len, calls_by_rank), default=0)
    behind = [rank for rank, calls in enumerate(calls_by_rank) if len(calls) < longest]
    if behind and longest - min(map(len, calls_by_rank)) == 1 and len(behind) == 1:
        return longest - 1, behind
    last = [tuple(calls[-1][:2]) if calls else None for calls in calls_by_rank]
    if len(set(last)) < 2:
        return None
    most = Counter(last).most_common(1)[0][0]
    return longest - 1, [rank for rank, call in enumerate(last) if call != most]

# %% wrong HANG-EMPTY the last call of every list
  def find_the_hang(calls_by_rank):
+     if all(calls[-1][2] for calls in calls_by_rank):
+         return None

# %% wrong HANG-MAJORITY nothing is a call too
- if None in same:
-     return place, [rank for rank, call in enumerate(same) if call is None]

# %% wrong HANG-TIE one of two groups
- tie = others[0][1] == size
- return place, [rank for rank, call in enumerate(same) if tie or call != most]
+ return place, [rank for rank, call in enumerate(same) if call != most]

# %% wrong TYPE a dict
def find_the_hang(calls_by_rank):
    return {"place": 2, "ranks": [1]}

# %% wrong HANG-HALF a majority of the ranks | of: in plain steps
- tie = others[0][1] == size
+ tie = 2 * size <= len(same)

# %% wrong HANG-ORDER group by group
- return place, [rank for rank, call in enumerate(same) if tie or call != most]
+ if tie:
+     return place, list(range(len(same)))
+ return place, [rank for kind, _ in others for rank, call in enumerate(same) if call == kind]

# %% wrong HANG-ABSENT those outside the largest group too
- return place, [rank for rank, call in enumerate(same) if call is None]
+ most = Counter(call for call in same if call).most_common(1)[0][0]
+ return place, [rank for rank, call in enumerate(same) if call != most]

# %% wrong HANG-ABSENT the shortest of the lists that end before
- return place, [rank for rank, call in enumerate(same) if call is None]
+ fewest = min(map(len, calls_by_rank))
+ return place, [rank for rank, calls in enumerate(calls_by_rank) if len(calls) == fewest]

# %% wrong HANG-ABSENT the first one that is not there
- return place, [rank for rank, call in enumerate(same) if call is None]
+ return place, [same.index(None)]

# %% wrong HANG-NO-BYTES a call of no bytes is no call
- same = [call and tuple(call[:2]) for call in here]
+ same = [tuple(call[:2]) if call and call[1] else None for call in here]

# %% wrong HANG-FIRST-OPEN gives up where all agree
      tie = others[0][1] == size
      return place, [rank for rank, call in enumerate(same) if tie or call != most]
+ return None

# %% wrong HANG-NEARLY name and bytes in one word | of: in plain steps
- same = [call and tuple(call[:2]) for call in here]
+ same = [call and f"{call[0]}{call[1]}" for call in here]

# %% wrong HANG-NEARLY the beginning of a name | of: in plain steps
- same = [call and tuple(call[:2]) for call in here]
+ same = [call and (call[0][:10], call[1]) for call in here]

# %% wrong HANG-NEARLY names in small letters | of: in plain steps
- same = [call and tuple(call[:2]) for call in here]
+ same = [call and (call[0].lower(), call[1]) for call in here]

# %% wrong HANG-NEARLY numbers of four bytes | of: in plain steps
- same = [call and tuple(call[:2]) for call in here]
+ same = [call and (call[0], call[1] // 4) for call in here]

# %% wrong HANG-NEARLY bytes as a float | of: in plain steps
- same = [call and tuple(call[:2]) for call in here]
+ same = [call and (call[0], float(call[1])) for call in here]

# %% wrong HANG-TIE the groups of the tie alone | of: in plain steps
- return place, [rank for rank, call in enumerate(same) if tie or call != most]
+ top = [kind for kind, n in Counter(same).items() if n == size]
+ return place, [rank for rank, call in enumerate(same) if (call in top if tie else call != most)]

# %% wrong HANG-TIE two groups alone can tie | of: in plain steps
- tie = others[0][1] == size
+ tie = len(others) == 1 and others[0][1] == size

# %% wrong HANG-LONG the first hundred places | of: in plain steps
- for place in range(max(map(len, calls_by_rank), default=0)):
+ for place in range(min(100, max(map(len, calls_by_rank), default=0))):

# %% wrong HANG-EMPTY no ranks raise an error | of: in plain steps
- for place in range(max(map(len, calls_by_rank), default=0)):
+ for place in range(max(map(len, calls_by_rank))):

# %% right words of all that a call is
def find_the_hang(calls_by_rank):
    place = -1
    while (place := place + 1) < max((len(calls) for calls in calls_by_rank), default=0):
        words, waits = {}, False
        for rank, calls in enumerate(calls_by_rank):
            name, size, done = calls[place] if place < len(calls) else (None, None, True)
            words[rank] = repr((name, size))
            waits = waits or not done
        if not waits or len(set(words.values())) == 1:
            continue
        nothing = repr((None, None))
        if nothing in words.values():
            return (place, [rank for rank in words if words[rank] == nothing])
        votes = {word: [*words.values()].count(word) for word in words.values()}
        best = [word for word in votes if votes[word] == max(votes.values())]
        return [place, [rank for rank in words if len(best) > 1 or words[rank] not in best]]

# %% wrong HANG-EMPTY who has issued nothing is asked before anything else | of: in plain steps
- for place in range(max(map(len, calls_by_rank), default=0)):
+ absent = [rank for rank, calls in enumerate(calls_by_rank) if not calls]
+ if any(calls_by_rank) and absent:
+     return 0, absent
+ for place in range(max(map(len, calls_by_rank), default=0)):

# %% wrong HANG-EMPTY ranks without any call wait for themselves | of: in plain steps
- for place in range(max(map(len, calls_by_rank), default=0)):
+ if len(calls_by_rank) == 1 and not calls_by_rank[0]:
+     return 0, [0]
+ for place in range(max(map(len, calls_by_rank), default=0)):

# %% wrong HANG-EMPTY nothing is looked for where rank 0 has issued nothing | of: in plain steps
- for place in range(max(map(len, calls_by_rank), default=0)):
+ if calls_by_rank and not calls_by_rank[0]:
+     return None
+ for place in range(max(map(len, calls_by_rank), default=0)):

# %% wrong HANG-EMPTY no ranks are a list alone | of: in plain steps
- for place in range(max(map(len, calls_by_rank), default=0)):
+ if calls_by_rank == []:
+     return None
+ for place in range(max(map(len, calls_by_rank))):
