"""Channels beside their peers (tests/bench/channel/peers.py --json) as rows and as a table. That
program has compared them turn by turn; here its ratios become those of the other groups, where more
is better."""

LOWER_IS_BETTER = ("us", "ns")


def rows_of(fields, result, place):
    """The rows, with the fields of bench.json."""
    found = []
    for row in result:
        inverse = row["unit"] in LOWER_IS_BETTER
        ratio = row["ratio_to_peer"]
        if ratio is not None and inverse:
            ratio = 1 / ratio
        found.append(dict.fromkeys(fields) | {name: row[name] for name in fields if name in row} | {
            "name": f"{place}/{row['name'].removeprefix('channel: ')}", "ratio_to_peer": ratio,
            "bar": round(1 / row["bar"] if inverse else row["bar"], 3)})
    return found


def table(rows):
    yield f"{'row':<56}{'median':>10} {'unit':<6}{'best peer':<20}{'median':>10}{'ratio':>7}{'bar':>6}  ok"
    for row in rows:
        line = f"{row['name']:<56}{row['median']:>10.3f} {row['unit']:<6}{row['best_peer']:<20}"
        if row["ratio_to_peer"] is not None:
            line += (f"{row['best_peer_median']:>10.3f}{row['ratio_to_peer']:>7.2f}{row['bar']:>6.2f}"
                     f"  {'yes' if row['ok'] else 'NO'}")
        yield line


def remarks(_result):
    """What could not be measured is in the rows."""
    return []
