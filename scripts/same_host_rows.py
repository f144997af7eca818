"""The same-host comparison (tests/bench/same_host) as rows and as a table: medians of the samples
that the machine left alone, beside the best peer and the limit, and the ratio that each row must
reach."""

import statistics

# A sample counts when the canaries before and after it lie within this factor of the run's usual
# canary. A virtual machine moves its two cores between near (one cache) and far within seconds: what
# was measured near is not compared with what was measured far.
CANARY_FACTOR = 1.5
LOWER_IS_BETTER = ("us", "B")
SIZES = (64 << 10, 1 << 20)
MIB = 1 << 20
STREAM_PEERS = "stream"  # two-sided, as programs stream; one-sided streams are shown, not counted


def bar(sample, size, unit, at_least, name=None, peer=None, limit=None, required=None):
    """A row with a bar: on the ratio to the best peer where there is one, else to the limit. Ratios
    are such that more is better. `required` is a limit that is a plain figure."""
    return {"sample": sample if "/" in sample else f"weft/{sample}", "name": name or sample, "size": size, "unit": unit,
            "bar": round(at_least, 3), "peer": peer, "limit": limit, "required": required}


BARS = [
    bar("write_latency", 8, "us", 1.0, peer="put_latency"),
    bar("write_latency", 8, "us", 1 / 1.4, name="write_latency_limit", limit="two_lines"),
    bar("send_latency", 8, "us", 1 / 0.85, peer="send_latency", limit="two_lines"),
    bar("send_rate", 8, "M/s", 1.5, peer="send_rate", limit="spsc_ring"),
    *[bar(f"{verb}_heap", size, "GB/s", 0.95, limit="process_vm_readv_same_pages")
      for verb in ("read", "write") for size in SIZES],
    *[bar(f"{verb}_arena", size, "GB/s", 1.3, peer=STREAM_PEERS, limit="memcpy")
      for verb in ("read", "write") for size in SIZES],
    bar("shim/ib_write_lat", 8, "us", 1 / 1.5, limit="process_vm_ping_pong"),
    bar("shim/ib_write_bw", 64 << 10, "GB/s", 0.9, limit="process_vm_writev"),
    bar("connects", 0, "/s", 1.0, required=20_000),
    bar("bytes_per_queue_pair", 0, "B", 1.0, required=2048),
]


# Over UDP, as frames (tests/bench/network).
NETWORK_BARS = [
    *[bar(f"latency{where}", 64, "us", 1 / 1.35, limit=f"udp_ping_pong{where}")
      for where in ("", "_veth")],
    bar("latency", 64, "us", 1.0, name="latency_peer", peer="latency"),
    *[bar(f"{verb}_stream{where}", MIB, "GB/s", 0.65, limit=f"udp_stream{where}")
      for verb in ("write", "send") for where in ("", "_veth")],
    bar("write_stream", MIB, "GB/s", 1.2, name="stream_peer", peer="stream"),
    bar("rate", 8, "M/s", 1.0, required=5),
    # Raw queue pairs, beside a loop over a packet socket.
    bar("packets_veth", 64, "M/s", 1.0, required=1),
    bar("packets_veth", 64, "M/s", 0.9, name="packets_socket", limit="packets_veth"),
    bar("packets_both_ways_veth", 64, "M/s", 0.9, limit="packets_both_ways_veth"),
]


def undisturbed(sample, canary):
    if sample["unit"] == "B":  # what memory costs does not depend on the moment
        return True
    return all(canary / CANARY_FACTOR <= sample[when] <= canary * CANARY_FACTOR
               for when in ("before", "after"))


def usual_canary(samples):
    """The one that keeps the most samples."""
    canaries = sorted({s[when] for s in samples for when in ("before", "after")})
    return max(canaries, key=lambda canary: sum(undisturbed(s, canary) for s in samples), default=0)


def measured(result):
    """(name, size) -> unit, kept values, number of dropped ones."""
    canary = usual_canary(result["samples"])
    found = {}
    for sample in result["samples"]:
        entry = found.setdefault((sample["name"], sample["size"]),
                                 {"unit": sample["unit"], "values": [], "dropped": 0})
        if undisturbed(sample, canary):
            entry["values"].append(sample["value"])
        else:
            entry["dropped"] += 1
    return found


def plain_row(fields, name, size, entry):
    row = dict.fromkeys(fields)
    row |= {"name": name, "size": size, "unit": entry["unit"], "n": len(entry["values"])}
    if entry["values"]:
        row |= {"median": statistics.median(entry["values"]), "min": min(entry["values"]),
                "max": max(entry["values"])}
    return row


def ratio(unit, mine, other):
    return other / mine if unit in LOWER_IS_BETTER else mine / other


def best_peer(found, what, size, unit):
    """Name and median of the peer that does it best."""
    medians = [(statistics.median(entry["values"]), name.split("/")[0])
               for (name, its_size), entry in found.items()
               if name.split("/")[1] == what and its_size == size and entry["values"]
               and name.split("/")[0] not in ("weft", "limit")]
    if not medians:
        return None, None
    value, name = (min if unit in LOWER_IS_BETTER else max)(medians)
    return name, value


def limit_of(found, wanted):
    """Name and median of what the row's limit is."""
    if wanted["required"]:
        return "required", wanted["required"]
    entry = found.get((f"limit/{wanted['limit']}", wanted["size"]))
    return wanted["limit"], statistics.median(entry["values"]) if entry and entry["values"] else None


def compared_row(fields, wanted, found, missing, place):
    entry = found.get((wanted["sample"], wanted["size"]), {"unit": wanted["unit"], "values": []})
    row = plain_row(fields, f"{place}/{wanted['name']}", wanted["size"], entry)
    row |= {"bar": wanted["bar"], "ok": False}
    if wanted["limit"] or wanted["required"]:
        row["limit"], row["limit_median"] = limit_of(found, wanted)
    if wanted["peer"]:
        name, value = best_peer(found, wanted["peer"], wanted["size"], row["unit"])
        absent = f" (not installed: {', '.join(missing)})" if missing else ""
        row |= {"best_peer": (name or "none measured") + absent, "best_peer_median": value}
    if row["median"]:
        for kind, median in (("peer", "best_peer_median"), ("limit", "limit_median")):
            if row[median]:
                row[f"ratio_to_{kind}"] = ratio(row["unit"], row["median"], row[median])
        reached = row["ratio_to_peer" if wanted["peer"] else "ratio_to_limit"]
        row["ok"] = None if reached is None else reached >= wanted["bar"]
    return row


def rows_of(fields, result, place="same_host"):
    """The rows with bars, then what the peers and the limits reached, then the absent."""
    found = measured(result)
    bars = {"same_host": BARS, "network": NETWORK_BARS}[place]
    rows = [compared_row(fields, wanted, found, result["missing"], place) for wanted in bars]
    for (name, size), entry in sorted(found.items()):
        barred = any((wanted["sample"], wanted["size"]) == (name, size) for wanted in bars)
        if not name.startswith("weft/") and not barred:
            rows.append(plain_row(fields, f"{place}/{name}", size, entry))
    for name, reason in result["missing"].items():
        row = dict.fromkeys(fields)
        rows.append(row | {"name": f"{place}/{name}", "n": 0, "best_peer": f"{name}: {reason}"})
    return rows


def figure(value):
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 100 else f"{value:.0f}"


def beside(row):
    """The part of a line that compares."""
    peer = (row["best_peer"] or "").split(" (")[0]
    ok = {True: "yes", False: "NO", None: "?"}[row["ok"]]
    return (f"  {peer:<13}{figure(row['best_peer_median']):>8}{figure(row['ratio_to_peer']):>8}"
            f"  {row['limit'] or '':<17}{figure(row['limit_median']):>7}"
            f"{figure(row['ratio_to_limit']):>8}{row['bar']:>7.3f}  {ok}")


def table(rows):
    """Lines for people: first what has a bar, then the rest."""
    columns = f"{'size':>9} {'':<5}{'median':>9}{'min':>9}{'max':>9}{'n':>4}"
    yield (f"{'weft':<26}{columns}  {'best peer':<21}{'ratio':>8}  {'limit':<24}{'ratio':>8}"
           f"{'bar':>7}  ok")
    rest = False
    for row in rows:
        if row["bar"] is None and not rest:
            rest = True
            yield f"\n{'peers and limits':<26}{columns}"
        if row["unit"] is None:
            yield row["best_peer"]
            continue
        yield (f"{row['name'].split('/', 1)[1]:<26}{row['size']:>9} {row['unit']:<5}"
               + "".join(f"{figure(row[k]):>9}" for k in ("median", "min", "max"))
               + f"{row['n']:>4}" + ("" if row["bar"] is None else beside(row)))


def remarks(result):
    """What else must be said: drops, failures."""
    found = measured(result)
    dropped = sum(entry["dropped"] for entry in found.values())
    if result["samples"]:
        yield (f"{result['rounds']} rounds, {len(result['samples'])} samples, {dropped} dropped: a "
               f"canary beside them was off the run's usual "
               f"{usual_canary(result['samples']):.0f} ns by more than {CANARY_FACTOR} x")
    for (name, size), entry in sorted(found.items()):
        if not entry["values"]:
            yield f"{name} {size}: all {entry['dropped']} samples were dropped"
    for name, failure in result["failures"].items():
        yield f"{name} failed {failure['times']} times, at last: {failure['reason']}"
