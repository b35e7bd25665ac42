"""What a virtual machine did not get of its cores' time, to judge timings by."""

import pathlib


def ticks():
    """What the first line of /proc/stat says of all cores: user, nice, system, idle, iowait, irq, softirq, steal."""
    return [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def stolen(before, after):
    """Of the time that a thread wanted a core, the share in per cent that the hypervisor had given to others. Where that is 10 to 24,
    one short copy in ten takes 5 to 50 times as long, and nothing else in the machine shows why."""
    user, nice, system, _, _, irq, softirq, steal = (now - then for now, then in zip(after, before))
    wanted = user + nice + system + irq + softirq + steal
    return round(100 * steal / wanted, 2) if wanted else 0.0


def self_test():
    """On made-up times."""
    assert stolen([10, 0, 20, 900, 5, 1, 1, 3], [70, 0, 40, 1900, 9, 1, 1, 23]) == 20.0
    assert stolen([1] * 8, [1, 1, 1, 9, 1, 1, 1, 1]) == 0.0
    assert len(ticks()) == 8
