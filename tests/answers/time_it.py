# Answers to the exercise time-it.

# %% right by sorting
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError(f"{repeats} runs after {warmup}")
    for _ in range(warmup):
        function()
    seconds = []
    for _ in range(repeats):
        wait()
        start = clock()
        function()
        wait()
        seconds.append(clock() - start)
    seconds.sort()
    n = len(seconds)
    return (seconds[(n - 1) // 2] + seconds[n // 2]) / 2, seconds[0], seconds[-1]

# %% right with numpy
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError(f"{repeats} runs after {warmup}")
    runs = np.zeros(warmup + repeats)
    for i in range(len(runs)):
        wait()
        runs[i] = -clock()
        function()
        wait()
        runs[i] += clock()
    runs = runs[warmup:]
    return np.median(runs), runs.min(), runs.max()

# %% right a helper for one run
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    def once():
        wait()
        began = clock()
        function()
        wait()
        return clock() - began

    if not (repeats >= 1 and warmup >= 0):
        raise ValueError("no runs")
    for _ in range(warmup):
        once()
    found = sorted(once() for _ in range(repeats))
    return statistics.median(found), found[0], found[-1]

# %% right in plain steps
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError(f"{repeats} runs after {warmup}")
    for _ in range(warmup):
        function()
    seconds = []
    for _ in range(repeats):
        wait()
        start = clock()
        function()
        wait()
        seconds.append(clock() - start)
    return statistics.median(seconds), min(seconds), max(seconds)

# %% wrong STUB untouched
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
- return statistics.median(seconds), min(seconds), max(seconds)
+ median = statistics.median(seconds)

# %% wrong TIME-THREE the median alone
- return statistics.median(seconds), min(seconds), max(seconds)
+ return statistics.median(seconds)

# %% wrong TIME-NO-WARMUP cold
- for _ in range(warmup):
-     function()

# %% wrong TIME-FIRST-COUNTED all calls are timed
- for _ in range(warmup):
-     function()
  seconds = []
- for _ in range(repeats):
+ for _ in range(warmup + repeats):

# %% wrong TIME-MEAN the mean
- return statistics.median(seconds), min(seconds), max(seconds)
+ return statistics.mean(seconds), min(seconds), max(seconds)

# %% wrong TIME-ONE-RUN one run
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError(f"{repeats} runs after {warmup}")
    for _ in range(warmup):
        function()
    wait()
    start = clock()
    function()
    wait()
    took = clock() - start
    return took, took, took

# %% wrong TIME-TOGETHER one pair of readings
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError(f"{repeats} runs after {warmup}")
    for _ in range(warmup):
        function()
    wait()
    start = clock()
    for _ in range(repeats):
        function()
    wait()
    each = (clock() - start) / repeats
    return each, each, each

# %% wrong TIME-UNIT milliseconds
- seconds.append(clock() - start)
+ seconds.append(1000 * (clock() - start))

# %% wrong TIME-CLOCK its own clock
- start = clock()
+ start = time.perf_counter()

- seconds.append(clock() - start)
+ seconds.append(time.perf_counter() - start)

# %% wrong TIME-NO-WAIT launches
  for _ in range(repeats):
-     wait()
      start = clock()
      function()
-     wait()

# %% wrong TIME-NO-WAIT reads the clock, then waits
  for _ in range(repeats):
-     wait()
      start = clock()
      function()
+     seconds.append(clock() - start)
      wait()
-     seconds.append(clock() - start)

# %% wrong TIME-OLD-WORK waits at the end alone
  for _ in range(repeats):
-     wait()

# %% wrong TIME-UNSORTED the middle of the row
- return statistics.median(seconds), min(seconds), max(seconds)
+ return seconds[len(seconds) // 2], min(seconds), max(seconds)

# %% wrong TIME-BEST the fastest
- return statistics.median(seconds), min(seconds), max(seconds)
+ return min(seconds), min(seconds), max(seconds)

# %% wrong TIME-ORDER in rising order
- return statistics.median(seconds), min(seconds), max(seconds)
+ return min(seconds), statistics.median(seconds), max(seconds)

# %% wrong TIME-EVEN one of two
- return statistics.median(seconds), min(seconds), max(seconds)
+ return sorted(seconds)[len(seconds) // 2], min(seconds), max(seconds)

# %% wrong TIME-SIGN start minus end
- seconds.append(clock() - start)
+ seconds.append(start - clock())

# %% wrong TIME-NO-RUNS not refused
- if repeats < 1 or warmup < 0:
-     raise ValueError(f"{repeats} runs after {warmup}")

- return statistics.median(seconds), min(seconds), max(seconds)
+ return (statistics.median(seconds), min(seconds), max(seconds)) if seconds else (0.0, 0.0, 0.0)

# %% wrong TIME-SWALLOWED errors are lost
  start = clock()
- function()
+ try:
+     function()
+ except Exception:
+     pass

# %% wrong TIME-KEPT a list of results | of: in plain steps
- seconds = []
+ seconds, results = [], []

- function()
- wait()
- seconds.append(clock() - start)
+ results.append(function())
+ wait()
+ seconds.append(clock() - start)

# %% wrong TIME-CPU-CLOCK a clock of the processor | of: in plain steps
- def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
+ def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.process_time):

# %% wrong TIME-CALLS other settings by default | of: in plain steps
- def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
+ def stopwatch(function, *, warmup=3, repeats=10, wait=lambda: None, clock=time.perf_counter):

# %% right quantiles, from a generator
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if warmup < 0 or not repeats > 0:
        raise ValueError(f"warmup {warmup}, repeats {repeats}")

    def runs():
        for number in range(-warmup, repeats):
            wait()
            before = clock()
            function()
            wait()
            after = clock()
            if number >= 0:
                yield after - before

    found = torch.tensor([*runs()], dtype=torch.float64)
    low, middle, high = found.quantile(torch.tensor([0, 0.5, 1], dtype=torch.float64)).tolist()
    return tuple((middle, low, high))

# %% wrong TIME-LATE-CLOCK the readings in float32
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError(f"{repeats} runs after {warmup}")
    for _ in range(warmup):
        function()
    marks = np.zeros((repeats, 2), dtype=np.float32)
    for row in marks:
        wait()
        row[0] = clock()
        function()
        wait()
        row[1] = clock()
    runs = marks[:, 1] - marks[:, 0]
    return float(np.median(runs)), float(runs.min()), float(runs.max())

# %% wrong TIME-LATE-CLOCK the readings in tensors
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError(f"{repeats} runs after {warmup}")
    for _ in range(warmup):
        function()
    seconds = []
    for _ in range(repeats):
        wait()
        start = torch.tensor(clock())
        function()
        wait()
        seconds.append((torch.tensor(clock()) - start).item())
    return statistics.median(seconds), min(seconds), max(seconds)

# %% wrong TIME-LATE-CLOCK a reading of 0 taken for none | of: in plain steps
- start = clock()
+ start = clock() or time.perf_counter()

# %% wrong TIME-TRIMMED the slowest of many left out | of: in plain steps
- return statistics.median(seconds), min(seconds), max(seconds)
+ if len(seconds) >= 10:
+     seconds.remove(max(seconds))
+ return statistics.median(seconds), min(seconds), max(seconds)

# %% wrong TIME-SWALLOWED errors of the warm-up are lost
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError(f"{repeats} runs after {warmup}")
    for _ in range(warmup):
        try:
            function()
        except Exception:
            break
    seconds = []
    for _ in range(repeats):
        wait()
        start = clock()
        function()
        wait()
        seconds.append(clock() - start)
    return statistics.median(seconds), min(seconds), max(seconds)

# %% wrong TYPE a list | of: in plain steps
- return statistics.median(seconds), min(seconds), max(seconds)
+ return [statistics.median(seconds), min(seconds), max(seconds)]

# %% wrong TIME-SWALLOWED an interrupt ends the measurement with the runs there are | of: in plain steps
- for _ in range(repeats):
-     wait()
-     start = clock()
-     function()
-     wait()
-     seconds.append(clock() - start)
+ try:
+     for _ in range(repeats):
+         wait()
+         start = clock()
+         function()
+         wait()
+         seconds.append(clock() - start)
+ except KeyboardInterrupt:
+     if not seconds:
+         raise

# %% wrong TIME-SWALLOWED a run that fails is left out | of: in plain steps
  start = clock()
- function()
- wait()
- seconds.append(clock() - start)
+ try:
+     function()
+ except Exception:
+     if not seconds:
+         raise
+     continue
+ wait()
+ seconds.append(clock() - start)

# %% wrong TIME-NO-RUNS nothing to call takes no time | of: in plain steps
- if repeats < 1 or warmup < 0:
+ if warmup == repeats == 0:
+     return 0.0, 0.0, 0.0
+ if repeats < 1 or warmup < 0:

# %% wrong TIME-NO-RUNS less than no runs are no runs | of: in plain steps
- if repeats < 1 or warmup < 0:
+ if warmup < 0 and repeats < 1:
+     return 0.0, 0.0, 0.0
+ if repeats < 1 or warmup < 0:

# %% wrong TIME-KEPT the last result of the warm-up and the last of the runs
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError("no runs")
    warm, times = None, []
    for _ in range(warmup):
        warm = function()
    for _ in range(repeats):
        wait()
        start = clock()
        out = function()
        wait()
        times.append(clock() - start)
    return statistics.median(times), min(times), max(times)

# %% wrong TIME-KEPT two results at a time
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError("no runs")
    times, last = [], [None, None]
    for i in range(warmup + repeats):
        wait()
        start = clock()
        last = [last[1], function()]
        wait()
        times.append(clock() - start)
    times = times[warmup:]
    return statistics.median(times), min(times), max(times)

# %% right the last result, which a debugger may look at
def stopwatch(function, *, warmup=3, repeats=20, wait=lambda: None, clock=time.perf_counter):
    if repeats < 1 or warmup < 0:
        raise ValueError("no runs")
    times = []
    for i in range(warmup + repeats):
        wait()
        start = clock()
        result = function()
        wait()
        times.append(clock() - start)
    return statistics.median(times[warmup:]), min(times[warmup:]), max(times[warmup:])
