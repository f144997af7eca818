"""The comparison of programs that sleep (tests/bench/sleeping) as rows and as a table. Each row is
held against the same work done by another, in the same round of the run: the ratio is the median of
the rounds' ratios, as waking a process costs a virtual machine twice as much at one time as at
another. Ratios are such that more is better."""

import statistics

import same_host_rows

WORST_US = 100_000  # no message takes longer than this, however busy the machine
# Twice what ib_send_lat took on a loaded machine while it span. It has become faster by sleeping in
# its polls; ib_write_lat spins in memory, and runs when the scheduler lets it. What that costs
# without weft is shown beside it: two processes that spin in memory, where the peer or a helper
# thread writes.
LOSSY_WRITE_US = 2_000
HOST = (("shm", "loopback"), ("loopback", "loopback"), ("veth", "veth"))  # place, place of its TCP
LOADED = [(place, tcp, how) for place, tcp in HOST for how in ("load", "load_free")
          if (place, how) != ("loopback", "load_free")]


def row(mine, other=None, at_least=None, *, limit=False, name=None):
    """`mine` beside `other`. `at_least` is the bar; without one the ratio is only shown. `limit`:
    the other is what the machine can do, not a peer. Without another the figure is only shown.
    `name`: of the row, if `mine` has one already."""
    return {"name": name or mine, "mine": mine, "other": other, "limit": limit,
            "bar": None if at_least is None else round(at_least, 3), "required": None, "of": None}


def at_most(mine, value, of="max"):
    """A bar on the worst value of all, or on their median."""
    return row(mine, None, 1.0, limit=True) | {"required": value, "of": of}


BARS = [
    row("ibv_rc_pingpong/mean_latency_shm", "eventfd/mean_latency_shm", 1 / 1.3, limit=True),
    *[row(f"ibv_rc_pingpong/mean_latency_{place}", f"tcp/mean_latency_{place}", 1 / 1.3)
      for place in ("loopback", "veth")],
    row("verbs_epoll/rate_shm_64", "tcp/rate_loopback_64", 1.0),
    row("verbs_epoll_channels/rate_shm_64", "tcp/rate_loopback_64", 1.0),
    row("verbs_epoll/rate_veth_64", "tcp/rate_veth_64", 0.7),
    *[row(f"verbs_epoll/p99_{place}_{how}", f"tcp/p99_{tcp}_{how}", 1 / 2)
      for place, tcp, how in LOADED],
    *[at_most(f"verbs_epoll/worst_{place}_{how}", WORST_US) for place, _, how in LOADED],
    at_most("ib_write_lat/mean_with_loss_load_free", LOSSY_WRITE_US, of="median"),
]

SHOWN = [
    row("ibv_rc_pingpong/mean_latency_shm_free", "eventfd/mean_latency_shm_free", limit=True),
    row("ibv_rc_pingpong/mean_latency_loopback_free", "tcp/mean_latency_loopback_free"),
    *[row(f"verbs_{wait}/latency_shm", "eventfd/latency_shm", limit=True)
      for wait in ("block", "epoll", "poll")],
    row("tcp/latency_loopback", "eventfd/latency_shm", limit=True),
    *[row(f"verbs_{wait}/latency_{place}", f"tcp/latency_{place}")
      for place in ("loopback", "veth") for wait in ("block", "epoll")],
    *[row(f"ucx/latency_{place}", f"tcp/latency_{tcp}") for place, tcp in HOST],
    *[row(f"verbs_epoll/idle_latency_{place}", f"tcp/idle_latency_{tcp}") for place, tcp in HOST],
    *[row(f"verbs_epoll/rate_{place}{count}", f"tcp/rate_{tcp}{count}")
      for place, tcp in HOST for count in ("", "_16")],
    row("verbs_epoll/rate_loopback_64", "tcp/rate_loopback_64"),
    *[row(f"verbs_epoll/cpu_{place}{count}", f"tcp/cpu_{tcp}{count}")
      for place, tcp in HOST for count in ("", "_16", "_64")],
    *[row(f"verbs_epoll/latency_{place}_{how}", f"tcp/latency_{tcp}_{how}")
      for place, tcp, how in LOADED],
    *[row(f"verbs_epoll/{what}_{place}_{how}2{free}", f"tcp/{what}_{tcp}_{how}2{free}")
      for what in ("latency", "p99", "worst")
      for place, tcp, how, free in (("shm", "loopback", "load", ""), ("veth", "veth", "load", ""),
                                    ("shm", "loopback", "load", "_free"))],
    *[row(f"ib_write_lat/mean_{loss}_load_free", floor, limit=True,
          name=f"ib_write_lat/{loss}_{beside}")
      for loss in ("with_loss", "without_loss")
      for beside, floor in (("beside_helper", "spin_with_helper/mean_latency_loopback_load_free"),
                            ("beside_spin", "spin/mean_latency_shm_load_free"))],
    row("ib_send_lat/mean_with_loss_load_free"),
    row("ucx_on_weft/latency_shm", "ucx/latency_loopback"),
    row("qperf_on_weft/qperf_latency", "qperf_tcp/qperf_latency"),
    row("rstream_on_weft/rstream_latency", "rstream_tcp/rstream_latency"),
    row("iperf_on_weft/iperf_stream", "iperf_tcp/iperf_stream"),
    row("iscsi_on_weft/iscsi_reads", "iscsi_tcp/iscsi_reads"),
    row("rping/rping_iteration"),
]


def undisturbed(sample, canary):
    """Under load there is no canary, and every sample counts."""
    return not sample["before"] or same_host_rows.undisturbed(sample, canary)


def usual_canary(samples):
    return same_host_rows.usual_canary([sample for sample in samples if sample["before"]])


def measured(result):
    """name -> unit, size, kept values by round, number of dropped ones."""
    canary = usual_canary(result["samples"])
    found = {}
    for sample in result["samples"]:
        entry = found.setdefault(sample["name"], {"unit": sample["unit"], "size": sample["size"],
                                                  "rounds": {}, "dropped": 0})
        if undisturbed(sample, canary):
            entry["rounds"][sample["round"]] = sample["value"]
        else:
            entry["dropped"] += 1
    return found


def plain_row(fields, name, entry):
    values = list(entry["rounds"].values())
    out = dict.fromkeys(fields)
    out |= {"name": f"sleeping/{name}", "size": entry["size"], "unit": entry["unit"],
            "n": len(values)}
    if values:
        out |= {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return out


def ratio_of(mine, other):
    """The median of the rounds in which both were measured; if there is none, of the medians."""
    both = sorted(set(mine["rounds"]) & set(other["rounds"]))
    if both:
        pairs = [(mine["rounds"][r], other["rounds"][r]) for r in both]
    elif mine["rounds"] and other["rounds"]:
        pairs = [tuple(statistics.median(entry["rounds"].values()) for entry in (mine, other))]
    else:
        return None
    return statistics.median(same_host_rows.ratio(mine["unit"], *pair) for pair in pairs)


NOTHING = {"unit": "us", "size": 64, "rounds": {}}


def compared_row(fields, wanted, found, missing):
    mine = found.get(wanted["mine"], NOTHING)
    out = plain_row(fields, wanted["name"], mine)
    kind = "limit" if wanted["limit"] else "best_peer"
    if wanted["required"]:
        out |= {"limit": "required", "limit_median": wanted["required"]}
        value = out[wanted["of"]]
        ratio = wanted["required"] / value if value else None
    elif not wanted["other"]:
        return out
    else:
        other = found.get(wanted["other"], NOTHING)
        theirs = plain_row(fields, wanted["other"], other)
        name = wanted["other"].split("/")[0]
        why = f" ({missing[name]})" if name in missing else ""
        out |= {kind: name + why, f"{kind}_median": theirs["median"]}
        ratio = ratio_of(mine, other)
    out["ratio_to_limit" if wanted["limit"] else "ratio_to_peer"] = ratio
    if wanted["bar"] is not None:
        # What could not be measured does not pass; where only the other is missing, nobody knows.
        unknown = out["median"] is not None and ratio is None
        out |= {"bar": wanted["bar"],
                "ok": None if unknown else ratio is not None and ratio >= wanted["bar"]}
    return out


def rows_of(fields, result, _place=None):
    """The rows with bars, then those that are compared, then everything else, then the absent."""
    found = measured(result)
    wanted = [w for w in BARS + SHOWN if w["bar"] is not None or w["mine"] in found]
    rows = [compared_row(fields, w, found, result["missing"]) for w in wanted]
    named = {w["mine"] for w in wanted}
    rows += [plain_row(fields, name, entry) for name, entry in sorted(found.items())
             if name not in named]
    for name, reason in result["missing"].items():
        rows.append(dict.fromkeys(fields) | {"name": f"sleeping/{name}", "n": 0,
                                             "best_peer": f"{name}: {reason}"})
    return rows


def line_of(row_):
    figure = same_host_rows.figure
    kind = "limit" if row_["limit"] else "best_peer"
    reached = row_["ratio_to_limit" if row_["limit"] else "ratio_to_peer"]
    line = (f"{row_['name'].removeprefix('sleeping/'):<44}{row_['unit']:<5}"
            + "".join(f"{figure(row_[key]):>9}" for key in ("median", "min", "max"))
            + f"{row_['n']:>4}  {(row_[kind] or '').split(' (')[0]:<14}"
            f"{figure(row_[f'{kind}_median']):>9}{figure(reached):>8}")
    if row_["bar"] is None:
        return line
    return line + f"{row_['bar']:>7.3f}  " + {True: "yes", False: "NO", None: "?"}[row_["ok"]]


def table(rows):
    """Lines for people: what has a bar, then what is beside another; the rest is in bench.json."""
    yield (f"{'weft':<44}{'':<5}{'median':>9}{'min':>9}{'max':>9}{'n':>4}  {'beside':<14}"
           f"{'median':>9}{'ratio':>8}{'bar':>7}  ok")
    shown = False
    named = {wanted["name"] for wanted in BARS + SHOWN}
    for row_ in rows:
        if row_["unit"] is None:
            yield row_["best_peer"]
        elif row_["name"].removeprefix("sleeping/") in named:
            if row_["bar"] is None and not shown:
                shown = True
                yield "without a bar"
            yield line_of(row_)


def remarks(result):
    """What else must be said: drops, failures."""
    found = measured(result)
    dropped = sum(entry["dropped"] for entry in found.values())
    if result["samples"]:
        yield (f"{result['rounds']} rounds, {len(result['samples'])} samples, {dropped} dropped: "
               "waking a process, measured beside them, was off the run's usual "
               f"{usual_canary(result['samples']) / 1000:.1f} us by more than "
               f"{same_host_rows.CANARY_FACTOR} x")
    for name, failure in result["failures"].items():
        yield f"{name} failed {failure['times']} times, at last: {failure['reason']}"
