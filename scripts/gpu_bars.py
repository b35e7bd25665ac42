"""What gpu-check has measured, judged by its bars, and told: no input or output."""

import statistics

# Parts that count programs.
PROGRAMS = ("programs", "programs-remote", "programs-mixed", "generated", "cuda-fortran", "cuda-fortran-remote")


def measured(results):
    """Figures by bench run, bench, what and runtime: a KeyError for those that there are not."""
    found = {}
    for name, bench in results.get("benches", {}).items():
        name, runtime = name.rsplit(" ", 1)
        for line in bench["results"]:
            found[name, line["bench"], line["what"], runtime] = line.get("median", line.get("value"))
    for what, seconds in results.get("starts", {}).items():
        found["starts", "", what, "accord"] = seconds
    for where, ways in results.get("whole", {}).items():
        for way, seconds in ways.items():
            found["whole", where, way, "accord"] = statistics.median(seconds)
    for where, regions in results.get("tiny", {}).items():
        for what, times in regions.items():
            found["tiny", where, what, "accord"] = statistics.median(times)
    return lambda name, bench, what, runtime="accord": found[name, bench, what, runtime]


def between(m, name, bench, what, other_bench, other_what=None):
    """One figure of a run by another."""
    return m(name, bench, what) / m(name, other_bench, other_what or what)


def overlap(m, what, runtime="accord", run="gpu_overlap"):
    return m(run, "overlap", what, runtime)


def pipeline(m, what):
    return m("gpu_pipeline", "pipeline", what)


def pipeline_limit(m):
    """The longer of computing and copying, and a block of each: nothing hides the first and the last one."""
    copy = pipeline(m, "copy only")
    return 1.05 * (max(pipeline(m, "compute only"), copy) + (pipeline(m, "blocks, compute only") + copy) / 16)


# Loops of gpu_kernels.c, and which part of the speed by hand they are to have.
ARRAY_LOOPS = [
    *((f"{loop}, double", 0.95) for loop in ("copy", "mul", "add", "triad", "dot", "sum")),
    *((f"{loop}, float", 0.9) for loop in ("copy", "mul", "add", "triad", "dot", "sum")),
    *((f"{loop}, {kind}", 0.9) for loop in ("stencil, gang and vector", "stencil, collapsed", "spmv, a row a thread", "spmv, a row a vector")
      for kind in ("double", "float")),
    ("histogram, int", 0.9),
]

# Rows of gpu_tiny.c.
TINY_REGIONS = ["10,000 in a row, async", "10,000 in a row, each waited for"]

# What, unit, figure, how the bar is meant (none: for information), bar.
BARS = [
    ("enqueue, empty region / raw", "x", lambda m: between(m, "gpu_launch", "empty region", "enqueue", "raw"), "<=", 1.2),
    ("launch and wait / raw", "x", lambda m: between(m, "gpu_launch", "empty region", "launch and wait", "raw"), "<=", 1.15),
    ("enqueue, 4 arrays and 2 scalars", "us", lambda m: m("gpu_launch", "4 arrays and 2 scalars", "enqueue"), "<=",
     lambda m: m("gpu_launch", "raw", "enqueue") + 1),
    *((f"tiny regions, {what} / raw", "x", lambda m, what=what: between(m, "gpu_tiny", "tiny regions", what, "raw"), "<=", 1.15)
      for what in TINY_REGIONS),
    *((f"tiny regions, {what}: stock's time / Accord's", "x", lambda m, what=what: m("gpu_tiny", "tiny regions", what, "stock") /
       m("gpu_tiny", "tiny regions", what), None, None) for what in TINY_REGIONS),
    *((f"tiny regions, {what}: remote / local", "x", lambda m, what=what: m("tiny", "remote", what) / m("tiny", "here", what), *bar) for what, bar in zip(TINY_REGIONS, (("<=", 1.3), (None, None)))),
    ("8 B to the device / raw", "x", lambda m: between(m, "gpu_copy", "update", "8 B to device", "raw pageable"), "<=", 1.2),
    ("8 B to the host / raw", "x", lambda m: between(m, "gpu_copy", "update", "8 B to host", "raw pageable"), "<=", 1.2),
    ("1 GiB to the device / pinned", "x", lambda m: between(m, "gpu_copy", "update", "host to device", "raw pinned"), ">=", 0.85),
    ("1 GiB to the host / pinned", "x", lambda m: between(m, "gpu_copy", "update", "device to host", "raw pinned"), ">=", 0.85),
    ("copies in by 4 threads / pinned by hand", "x", lambda m: m("gpu_threads", "copies in", "update device, 4 threads") /
     m("gpu_threads", "copies in by hand", "pinned, 4 threads"), ">=", 0.85),
    *((f"rows of {row}, async / each by hand, async", "x", lambda m, row=row: between(m, "gpu_rows", "rows", f"{row}, async",
       "rows by hand"), "<=", 1.0) for row in ("256 B to device", "256 B to host", "4096 B to device", "4096 B to host")),
    *((f"{kernel}: stock's time / Accord's", "x", lambda m, kernel=kernel: m("gpu_stream", "kernels", kernel, "stock") /
       m("gpu_stream", "kernels", kernel), ">=", 0.98) for kernel in ("triad", "dot", "sweep")),
    *((f"{loop}: time of CUDA by hand / Accord's", "x", lambda m, loop=loop: between(m, "gpu_kernels", "by hand", loop, "array loops"),
       ">=", bar) for loop, bar in ARRAY_LOOPS),
    *((f"CUDA Fortran: {what} / by hand", "x", lambda m, what=what: between(m, "gpu_cuda_fortran", "cuda fortran", what, "by hand"), "<=", bar)
      for what, bar in (("enqueue, empty kernel", 1.3), ("launch and wait, empty kernel", 1.15), ("matrix product", 1.1))),
    ("CUDA Fortran: triad, time by hand / of the kernel loop", "x", lambda m: between(m, "gpu_cuda_fortran", "by hand", "triad, double",
     "cuda fortran"), ">=", 0.95),
    *((f"CUDA Fortran: {what}, time of update / of the assignment", "x", lambda m, what=what: between(m, "gpu_cuda_fortran", "update", what,
       "cuda fortran"), ">=", 0.97) for what in ("array to device", "array to host")),
    ("copy / compute of the picture", "x", lambda m: overlap(m, "copy / compute"), None, None),
    ("picture, 16 blocks, 2 queues: speedup", "x", lambda m: overlap(m, "speedup, 16 blocks, 2 queues"), ">=", 1.8),
    ("larger picture, 16 blocks, 2 queues: speedup", "x",
     lambda m: overlap(m, "speedup, 16 blocks, 2 queues", run="gpu_overlap large"), ">=", 1.8),
    ("picture, 16 blocks, 2 queues / ideal", "x", lambda m: overlap(m, "16 blocks, 2 queues") /
     overlap(m, "ideal: the longer of kernels and copy, and a block of the other"), "<=", 1.05),
    *((f"picture, {kind}: speedup", "x", lambda m, kind=kind: overlap(m, f"speedup, {kind}"), None, None)
      for kind in ("32 blocks, 2 queues", "32 blocks, 3 queues", "16 blocks, 2 queues, pinned memory")),
    ("picture, 16 blocks, 2 queues: speedup of stock", "x", lambda m: overlap(m, "speedup, 16 blocks, 2 queues", "stock"), None,
     None),
    ("pipeline, 16 blocks, 2 queues", "ms", lambda m: pipeline(m, "blocks, 2 queues"), "<=", pipeline_limit),
    *((f"pipeline, 16 blocks, 2 queues / {what}", "x", lambda m, what=what, key=key: pipeline(m, "blocks, 2 queues") /
       pipeline(m, key), None, None) for what, key in (("pinned memory", "blocks, 2 queues, pinned memory"),
                                                       ("the least for 2 queues", "least for 2 queues"))),
    ("pipeline: stock's time / Accord's", "x", lambda m: m("gpu_pipeline", "pipeline", "blocks, 2 queues", "stock") /
     pipeline(m, "blocks, 2 queues"), None, None),
    ("acc_init, code cached / context by hand", "x", lambda m: m("starts", "", "accord second, acc_init") /
     m("starts", "", "context by hand"), "<=", 1.1),
    *((f"program with one tiny region, {where} / by hand", "x", lambda m, where=where: between(m, "whole", where, "accord", where,
       "by hand"), "<=", 1.1) for where in ("alone", "beside another")),
    *((f"program with one tiny region, {where}: stock's time / Accord's", "x", lambda m, where=where: between(m, "whole", where, "stock",
       where, "accord"), None, None) for where in ("alone", "beside another")),
    ("program with one tiny region, on a GPU of another node", "s", lambda m: m("whole", "remote", "accord"), None, None),
    *((f"remote: enqueue, {region}", "us", lambda m, region=region: m("gpu_remote", region, "enqueue"), "<=", bar)
      for region, bar in (("empty region", 1.0), ("4 arrays and 2 scalars", 2.0))),
    *((f"remote: launch and wait, {region}", "us", lambda m, region=region: m("gpu_remote", region, "launch and wait"), "<=",
       lambda m: m("gpu_remote", "TCP", "64 B there and back") + m("gpu_remote", "raw", "launch and wait") + 20)
      for region in ("empty region", "4 arrays and 2 scalars")),
    ("remote: 8 B to the device", "us", lambda m: m("gpu_remote", "update", "8 B to device"), None, None),
    ("remote: 8 B to the host", "us", lambda m: m("gpu_remote", "update", "8 B to host"), "<=",
     lambda m: m("gpu_remote", "TCP", "64 B there and back") + m("gpu_remote", "raw", "8 B to host") + 20),
    ("remote: 256 MiB to the device / TCP", "x",
     lambda m: between(m, "gpu_remote", "update", "host to device", "TCP", "stream there"), ">=", 0.8),
    ("remote: 256 MiB to the host / TCP", "x",
     lambda m: between(m, "gpu_remote", "update", "device to host", "TCP", "stream back"), ">=", 0.8),
    ("remote: until an async copy of 256 MiB returns", "us",
     lambda m: m("gpu_remote", "update async", "host to device, until the call returns"), "<=", 100),
    ("d2d, 1 GiB, one process / raw", "x", lambda m: between(m, "gpu_many", "acc_memcpy_d2d", "1 GiB", "raw peer"), ">=", 0.97),
    ("d2d, 1 GiB, one process, beside a server / raw", "x", lambda m: between(m, "gpu_d2d", "acc_memcpy_d2d", "all", "raw peer"),
     ">=", 0.97),
    ("d2d, 1 GiB, two nodes", "GB/s", lambda m: m("gpu_d2d nodes", "acc_memcpy_d2d", "all"), None, None),
    ("d2d, 1 GiB, two nodes / raw", "x", lambda m: between(m, "gpu_d2d nodes", "acc_memcpy_d2d", "all", "raw peer"), ">=", 0.97),
    ("d2d, 1 MiB, two nodes", "GB/s", lambda m: m("gpu_d2d nodes", "acc_memcpy_d2d", "1 MiB"), ">=", 60),
    ("d2d, 8 B, two nodes", "us", lambda m: m("gpu_d2d nodes", "acc_memcpy_d2d", "8 B"), "<=", 25),
    ("d2d, 256 MiB, two nodes by TCP / TCP", "x",
     lambda m: between(m, "gpu_d2d nodes, TCP", "acc_memcpy_d2d", "all", "TCP", "stream there"), ">=", 0.8),
    *((f"{bench} over {devices} {name}: speedup", "x", lambda m, bench=bench, run=run, devices=devices:
       m(run, bench, "over 1") / m(run, bench, f"over {devices}"), ">=", bar)
      for bench in ("picture", "picture, scattered rows")
      for run, name in (("gpu_many", "GPUs"), ("gpu_many nodes", "nodes"), ("gpu_many nodes, more work", "nodes, more work"))
      for devices, bar in ((2, 1.95), (4, 3.8))),
    *((f"picture over {devices} {name}: {what}", "x", lambda m, run=run, devices=devices, one=one, some=some:
       m(run, "picture", f"over 1{one}") / m(run, "picture", f"over {devices}{some}"), None, None)
      for run, name in (("gpu_many", "GPUs"), ("gpu_many nodes", "nodes"))
      for devices in (2, 4)
      for what, one, some in (("speedup without copies", ", without copies", ", without copies"),
                              ("speedup if each share ran alone", "", ", slowest share alone"))),
]


def judge(results):
    """Rows of the table: what, unit, figure, bar, verdict."""
    m = measured(results)
    rows = []
    for what, unit, figure, sign, bar in BARS:
        try:
            value = figure(m)
            limit = bar(m) if callable(bar) else bar
        except (KeyError, ZeroDivisionError, TypeError):
            continue
        met = sign is None or (value <= limit if sign == "<=" else value >= limit)
        rows.append((what, unit, value, "-" if sign is None else f"{sign} {limit:.4g}",
                     "-" if sign is None else "met" if met else "MISSED"))
    if results.get("gpus", 0) > 1 and (rates := results.get("device", {}).get("1 GiB to another GPU, GB/s")):
        within, between_two = rates
        share = between_two / within
        rows.append(("1 GiB between two processes / within one", "x", share, ">= 0.97", "met" if share >= 0.97 else "MISSED"))
    for part in PROGRAMS:
        if part in results:
            passed, of, not_run = results[part]["passed"], results[part]["of"], len(results[part].get("not_run", []))
            verdict = "MISSED" if passed + not_run < of else f"{not_run} NOT RUN" if not_run else "met"
            rows.append((part, f"of {of}", passed, f">= {of}", verdict))
    for where, run in results.get("model", {}).items():
        rows.append((f"model, {where}", "ops", run["operations"], "all right", "met" if run["right"] else "WRONG"))
    rows += [(name, "", 0, "-", "NOT RUN") for name in results.get("not_run", [])]
    for name, bench in results.get("benches", {}).items():
        wrong = [line["what"] for line in bench["results"]
                 if line["what"] == "right" and line["value"] != 1 or line["what"].startswith("WRONG")]
        if bench["code"] not in (0, 77) and name.endswith(" stock"):
            rows.append((f"{name}: it ends with", "", bench["code"], "-", "-"))
        elif wrong or bench["code"] not in (0, 77):
            rows.append((f"{name}: {wrong[0] if wrong else 'exit'}", "", 0 if wrong else bench["code"], "-", "WRONG"))
    return rows


def details(results):
    """Everything that was measured, Accord beside stock libgomp."""
    lines, rows = [], {}
    for name, seconds in results.get("starts", {}).items():
        lines.append(f"start, {name}: {seconds} s")
    for name, bench in results.get("benches", {}).items():
        name, runtime = name.rsplit(" ", 1)
        for line in bench["results"]:
            value = line.get("median", line.get("value", ""))
            rows.setdefault((name, line["bench"], line["what"], line.get("unit", "")), {})[runtime] = value
    for (name, bench, what, unit), values in rows.items():
        both = f"accord {values.get('accord', '-'):>10} stock {values.get('stock', '-'):>10}"
        lines.append(f"{name:14} {bench:24} {what:40} {unit:5} {both}")
    return lines


def table(rows):
    lines = [f"{'what':52} {'figure':>10} {'unit':6} {'bar':12} verdict"]
    for what, unit, value, bar, verdict in rows:
        value = f"{value:.4g}" if isinstance(value, float) else str(value)
        lines.append(f"{what:52} {value:>10} {unit:6} {bar:12} {verdict}")
    return lines


def is_whole(results):
    """Whether all was run, and all that has to be right was."""
    programs = [results[part] for part in PROGRAMS if part in results]
    return (not results.get("not_run") and not results.get("errors") and not results.get("device", {}).get("code")
            and all(part["passed"] == part["of"] for part in programs)
            and all(run["right"] for run in results.get("model", {}).values())
            and not any(row[4] == "WRONG" for row in judge(results)))


def count(tests):
    skipped = sum(verdict == "skipped" for verdict in tests.values())
    passed = sum(verdict == "ok" for verdict in tests.values())
    return f"{passed} of {len(tests) - skipped}" + (f", {skipped} skipped" if skipped else "")
